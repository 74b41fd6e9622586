"""Tables of the command: aligned for a terminal, tab-separated for a pipe, never cut."""

from __future__ import annotations

import pytest

from counterpose._cli.bug_hunt import bug_hunt_text
from counterpose._cli.stress_test import stress_test_text
from counterpose._cli.tables import Table
from counterpose_core.contract.bug_hunt_summary import Bug, EditedCaptions, FailureRate, RatioOfRates
from counterpose_core.contract.failure_criteria import TopOne
from counterpose_core.contract.findings import ClassifierVerdict, Finding, Screened
from counterpose_core.types import Estimate
from fakes.hunt_answers import a_hunt_summary
from fakes.sdk import a_summary, figure

LONG = "a-classifier-with-a-name-that-is-longer-than-any-column-of-a-terminal"
DROP = Estimate(estimate=0.25, low=0.125, high=0.375, n=40)


def wide() -> Table:
    """Three estimates and a long name: more than 80 characters in one line."""
    return Table(("classifier", "original", "reconstruction", "edited"), [(LONG, DROP, DROP, DROP)])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal_and_loses_nothing(width: int) -> None:
    lines = wide().aligned(width).splitlines()
    assert max(map(len, lines)) <= width
    joined = "".join(line.split("  ")[0].strip() for line in lines[1:])
    assert LONG in joined
    assert sum(line.count("(n=40)") for line in lines) == 3


def test_an_interval_stands_below_its_estimate_on_a_terminal() -> None:
    first, second = wide().aligned(160).splitlines()[1:3]
    assert first.count("0.250 (n=40)") == 3
    assert second.count("[0.125, 0.375]") == 3


def test_a_pipe_gets_one_tab_separated_line_per_row() -> None:
    assert str(wide()).splitlines() == [
        "classifier\toriginal\treconstruction\tedited",
        "\t".join([LONG, *["0.250 [0.125, 0.375] (n=40)"] * 3]),
    ]


def test_a_missing_figure_is_a_dash() -> None:
    assert Table(("a", "b"), [("x", None)]).tab_separated() == "a\tb\nx\t-"


def test_a_name_cannot_break_a_row() -> None:
    assert Table(("a",), [("one\ttwo\nthree\rfour",)]).tab_separated() == "a\none two three four"


def test_a_name_in_brackets_is_no_markup() -> None:
    assert "[bold]bus[/bold]" in Table(("a",), [("[bold]bus[/bold]",)]).aligned(80)


def test_an_id_is_never_wrapped() -> None:
    table = Table(("run", "dataset"), [("f" * 32, "photographs of every kind")], whole=frozenset({"run"}))
    assert "f" * 32 in table.aligned(50)


def test_a_terminal_gets_aligned_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\t" not in str(wide())


def test_a_stress_test_lists_every_classifier_with_its_accuracies() -> None:
    text = stress_test_text(a_summary(steady=figure(0.0, -0.01, 0.02), leaning=figure(0.3, 0.2, 0.4)))
    rows = [line.split("\t")[0] for line in text.splitlines() if "\t" in line]
    assert rows == ["classifier", "steady", "leaning"]


def test_a_stress_test_prints_verdicts_and_findings_before_its_figures_and_where_to_read_on() -> None:
    finding = Finding(
        number=1, state="breaks", classifier="steady", object_class="bus", edit_type="adjective",
        removed="yellow", added="", taken_for="tram", flipped=41, of=52,
        screened=Screened(loss=0.5, n_sources=4, n_images=4, flipped=3), confirmed=None, pairs=[],
        sentence="Buses are called trams once they are not yellow.",
    )  # fmt: skip
    verdict = ClassifierVerdict(classifier="steady", state="breaks", finding=1, sentence="steady breaks.")
    open_still = finding.model_copy(update={"number": 2, "state": "suspected"})
    summary = a_summary(steady=figure()).model_copy(
        update={
            "verdict": "1 of 1 models breaks.\nsteady breaks.\n1 of 2 changes was proven.",
            "findings": [finding, open_still],
            "verdicts": [verdict],
        }
    )
    lines = stress_test_text(summary).splitlines()
    assert lines[:8] == [
        "1 of 1 models breaks.",
        "breaks: steady breaks.",
        "1 of 2 changes was proven.",
        "",
        "finding 1 (breaks): Buses are called trams once they are not yellow.",
        "  next, make this change in every image: counterpose apply run-1 --finding 1",
        "finding 2 (suspected): Buses are called trams once they are not yellow.",
        "  next: counterpose prove run-1 --finding 2 --images 20",
    ]
    assert lines[-1] == "report: counterpose open run-1"

    of_bus = open_still.model_copy(update={"object_class": "Bus"})
    update = {"findings": [finding, of_bus], "pairs_left": {2: 0}}
    none_left = stress_test_text(summary.model_copy(update=update)).splitlines()
    assert none_left[7] == (
        "  no image of 'Bus' is left to prove it on; add some, then: "
        "counterpose prove run-1 --finding 2 --images 20 --dataset FOLDER"
    )
    few_left = update | {"pairs_left": {2: 3}, "least_pairs": {2: 7}}
    assert stress_test_text(summary.model_copy(update=few_left)).splitlines()[7] == (
        "  too few images of 'Bus' are left (3, and a proof takes 7); add some, then: "
        "counterpose prove run-1 --finding 2 --images 20 --dataset FOLDER"
    )
    some_left = stress_test_text(summary.model_copy(update={"pairs_left": {2: 3}})).splitlines()
    assert some_left[7] == "  next: counterpose prove run-1 --finding 2 --images 3"


def test_a_hunt_tells_what_a_user_s_images_surely_reach_beside_the_generator_s_rate() -> None:
    rate = FailureRate(failures=10, rate=DROP, criterion=TopOne(), made=40)
    bug = Bug(
        number=1, state="breaks", description="a fly at night", words="at night", label="fly",
        classifier="leaning", hypothesis=1, failure_rate=DROP, at_least=0.128,
        ratio=RatioOfRates(ratio=None, low=2.0, high=None), held_out=rate, baseline=rate, discovery=rate,
        p_adjusted=0.001, taken_for="bee", sentence="leaning fails on a fly at night",
    )  # fmt: skip
    unmeasured = bug.model_copy(update={"description": "a fly in snow", "at_least": None})
    text = bug_hunt_text(a_hunt_summary().model_copy(update={"bugs": [bug, unmeasured]}))
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == 6]
    assert rows[0][3:6] == ["held-out rate", "on your images", "discovery rate"]
    assert [row[2:5] for row in rows[1:]] == [
        ["a fly at night", str(DROP), "at least 0.13"],
        ["a fly in snow", str(DROP), "-"],
    ]


def test_a_hunt_tells_how_many_images_had_no_caption_of_their_own() -> None:
    rate = FailureRate(failures=2, rate=DROP, criterion=TopOne(), made=40)
    edited = EditedCaptions(
        label="fly", classifier="leaning", captions=40, lacking=8, dropped={}, failure=rate, taken_for={}
    )
    whole = edited.model_copy(update={"label": "tram", "captions": 48, "lacking": 0})
    lines = bug_hunt_text(a_hunt_summary().model_copy(update={"edited": [edited, whole]})).splitlines()
    assert "fly\tleaning\t40 and 8 lacking\t2 of 40" in lines
    assert "tram\tleaning\t48\t2 of 40" in lines


def test_a_summary_prints_in_80_columns_with_every_interval() -> None:
    drops = {
        "steady": figure(0.0, -0.01, 0.02),
        "oip:http://127.0.0.1:42823/v2/models/tiny": figure(0.3, 0.2, 0.4),
    }
    text = str(a_summary(**drops).model_copy(update={"edit_types": {}}))
    rows = [line for line in text.splitlines() if "0.900 [0.800, 0.950] (n=39)" in line]
    assert len(rows) == 3 * len(drops)
    assert max(map(len, rows)) <= 80
