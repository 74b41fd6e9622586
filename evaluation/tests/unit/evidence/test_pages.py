"""Generated pages start with a finding, end with a command, and report missed and missing figures."""

from __future__ import annotations

import pytest

from counterpose_core.suite import load_suite
from counterpose_core.types import Estimate
from evaluation.benchmarks.report import EditorBenchmark, Machine, Row, at_least, row
from evaluation.evidence.markdown import GENERATED, cells, figure, table
from evaluation.evidence.pages import EVIDENCE, pages
from evaluation.evidence.quality import read_known_images
from evaluation.evidence.speed import finding, speed_page

PAGES = {
    path.name: text for path, text in pages().items() if path.parent == EVIDENCE and path.suffix == ".md"
}
MACHINE = Machine(
    processor="Some CPU", cores=2, threads=1, device=None, python="3.11", torch="2.13", diffusers="0.42"
)


def report(*rows: Row, size: str = "full") -> EditorBenchmark:
    return EditorBenchmark(machine=MACHINE, settings={"size": size}, rows=list(rows))


def speed(tmp_path_factory: pytest.TempPathFactory, made: EditorBenchmark) -> str:
    file = tmp_path_factory.mktemp("results") / "editor.json"
    file.write_text(made.model_dump_json(), encoding="utf-8")
    return speed_page(file, cards=())


def test_every_page_starts_with_a_finding_and_ends_with_the_method() -> None:
    for name, text in PAGES.items():
        lines = text.splitlines()
        assert lines[0].startswith("# "), name
        assert lines[2] == GENERATED, name
        if name == "index.md":
            continue
        assert any(character.isdigit() for character in lines[4]), name
        assert lines[4].endswith("."), name
        assert "\n## How this " in text, name


def test_the_index_links_every_page_with_its_finding() -> None:
    for name, text in PAGES.items():
        if name != "index.md":
            assert f"]({name})**: {text.splitlines()[4]}" in PAGES["index.md"], name


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"faults.md", "index.md"}))
def test_every_page_with_figures_names_its_command(name: str) -> None:
    assert "- `make " in PAGES[name] or "- `python -m evaluation." in PAGES[name]


def test_a_figure_has_its_interval_and_its_n() -> None:
    estimate = Estimate(estimate=0.5, low=0.25, high=0.75, n=1200)
    assert cells(estimate) == ("0.500 (0.250 to 0.750)", "1,200")
    assert figure(Estimate(estimate=None, low=None, high=None, n=0)) == "-"
    assert cells(None) == ("-", "-")


def test_a_pipe_in_a_cell_is_escaped() -> None:
    assert table(("a", "b"), [("x|y", "z")])[-1] == "| x\\|y | z |"


def test_missed_and_unmeasured_targets_are_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = report(
        row("E2", "calls", [4.0], at_least(4.5)), row("E5", "F/s", [], at_least(600)), row("E6", "n", [1.0])
    )
    text = speed(tmp_path_factory, made)
    assert "| calls | ≥ 4.5 | 4 | - | 1 | **no** |" in text
    assert "| F/s | ≥ 600 | not measured | - | 0 | - |" in text
    assert "| n | - | 1 | - | 1 | - |" in text
    assert "| E2 Evaluations of the exact mode | 0 of 1 | null-text" in text
    assert "| E5 Speed on an accelerator | 0 of 0, 1 not measured | - |" in text
    assert "Some CPU, 2 cores, 1 thread(s)" in text
    assert "0 of 1 targets; missed are E2 (1); 1 further" in finding(made.rows)


def test_a_smaller_size_says_that_targets_do_not_apply(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    small, full = (report(row("E2", "calls", [4.0]), size=size) for size in ("quick", "full"))
    assert "This size only shows that everything runs" in speed(tmp_path_factory, small)
    assert "This size only shows" not in speed(tmp_path_factory, full)


def test_the_suite_has_the_values_that_were_calibrated() -> None:
    known = load_suite("miniature").known_images
    assert known is not None
    measured = read_known_images().known_images
    assert (known.backend, known.preset) == (measured.backend, measured.preset)
    assert known.model_dump(exclude={"backend", "preset"}) == pytest.approx(
        measured.model_dump(exclude={"backend", "preset"}), rel=1e-3
    )
