"""The page about load: what it says is met, and what it draws."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from evaluation.evidence.growth import drawing
from evaluation.evidence.load import charts, finding, load_drawings, load_page
from evaluation.load.report import Growth, LoadMachine, LoadReport, LoadRow

FAST = LoadRow(
    group="leases", name="lease, 1M open items", meets=("H1",), unit="ms", value=2.0, low=1.0, high=3.0, n=9,
    target=4.0,
)  # fmt: skip
SLOW = FAST.model_copy(update={"name": "lease, 10k runs", "value": 5.0})
LINE = Growth(group="leases", name="SQLite", size="open items", unit="ms", points=((1e3, 1.0), (1e6, 2.0)))
OTHER = LINE.model_copy(update={"name": "PostgreSQL"})
BY_RUNS = LINE.model_copy(update={"size": "queued runs"})


def a_report(*rows: LoadRow, growth: tuple[Growth, ...] = ()) -> LoadReport:
    """Rows as if they had been measured."""
    return LoadReport(machine=LoadMachine(processor="p", cores=2, load=0.5), rows=rows, growth=growth)


def test_the_finding_names_what_is_missed() -> None:
    assert finding(a_report(FAST)) == "1 of 1 targets are met."
    assert finding(a_report(FAST, SLOW)) == "1 of 2 targets are met. Missed: lease, 10k runs (5 ms)."


def test_a_row_without_a_target_is_not_judged() -> None:
    context = FAST.model_copy(update={"target": None})
    assert finding(a_report(context)) == "0 of 0 targets are met."
    assert "| lease, 1M open items | H1 | - | 2 ms | 1 to 3 | 9 | - |" in load_page(a_report(context))


def test_figures_of_one_unit_and_size_share_a_drawing() -> None:
    report = a_report(FAST, growth=(LINE, BY_RUNS, OTHER))
    names = {name: [each.name for each in lines] for name, lines in charts(report).items()}
    assert names == {"load-leases-1.svg": ["SQLite", "PostgreSQL"], "load-leases-2.svg": ["SQLite"]}
    assert list(load_drawings(report)) == list(names)
    assert "![ms by open items](load-leases-1.svg)" in load_page(report)


def test_a_factor_of_ten_is_as_wide_on_either_end_of_an_axis() -> None:
    line = LINE.model_copy(update={"points": ((1e3, 1.0), (1e4, 10.0), (1e5, 100.0), (1e6, 1.0))})
    root = ElementTree.fromstring(drawing([line]))
    dots = root.findall("{*}circle")
    across = [float(dot.attrib["cx"]) for dot in dots]
    up = [float(dot.attrib["cy"]) for dot in dots]
    assert across[1] - across[0] == pytest.approx(across[3] - across[2], abs=0.2)
    assert up[0] - up[1] == pytest.approx(up[1] - up[2], abs=0.2)
    assert up[0] == up[3] > up[1]


def test_a_zero_is_refused_where_the_axis_is_logarithmic() -> None:
    with pytest.raises(ValueError, match="SQLite"):
        drawing([LINE.model_copy(update={"points": ((0.0, 1.0),)})])


def test_a_point_at_zero_is_named_and_the_others_are_drawn() -> None:
    partly = LINE.model_copy(update={"points": ((1e3, 0.0), (1e4, 2.0), (1e6, 3.0))})
    report = a_report(FAST, growth=(partly, OTHER, BY_RUNS.model_copy(update={"points": ((1e3, 0.0),)})))
    assert [len(line.points) for line in charts(report)["load-leases-1.svg"]] == [2, 2]
    assert list(load_drawings(report)) == ["load-leases-1.svg"]
    assert "Points at 0 are not drawn: SQLite." in load_page(report)
    assert "not drawn" not in load_page(a_report(FAST, growth=(LINE,)))
