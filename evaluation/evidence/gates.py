"""The page about the gate: how often it passes an equal model, and how often it stops a planted bug."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.contract.gates import CellState, GateOutcome
from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, figure, page, table
from evaluation.paths import RESULTS
from evaluation.validity.report import Part

GATE, FAILURE_POINTS = RESULTS / "gate.json", RESULTS / "gate-failure-points.json"


class Outcomes(Part):
    """The shares of trials with each outcome."""

    passed: Estimate
    failed: Estimate
    inconclusive: Estimate


class SimulatedRow(Part):
    """A simulated candidate at one number of source images."""

    candidate: str
    sources: int
    disagreement: float
    outcomes: Outcomes


class MiniatureRow(Part):
    """A network of the suite against another one, or against its rounded copy."""

    candidate: str
    incumbent: str
    sources: int
    disagreement: float
    errors: dict[str, float]
    outcomes: Outcomes


class GateFigures(Part):
    """`results/gate.json`."""

    replicates: int
    seed: int
    tolerance: float
    changes: int
    classes: int
    kept: float
    asked_for: int
    green: str
    red: list[str]
    rows: list[SimulatedRow]
    miniature: list[MiniatureRow]
    holds: bool


class FailurePointCell(Part):
    """A candidate's failure points under one operation, or its answers to the source images themselves."""

    cell: str
    state: CellState
    regression: Estimate
    p_adjusted: float | None
    candidate: Estimate
    incumbent: Estimate
    needed: int | None


class FailurePointGate(Part):
    """One gate: the outcomes that it may have, its own, the states of its cells, and those shown."""

    dataset: str
    candidate: str
    incumbent: str
    operations: list[str]
    sources: int
    expected: list[GateOutcome]
    outcome: GateOutcome
    verdict: str
    tested: int
    states: dict[CellState, int]
    cells: list[FailurePointCell]


class FailurePointGates(Part):
    """`results/gate-failure-points.json`."""

    side: int
    input: int
    seed: int
    gates: list[FailurePointGate]
    holds: bool


def _failure_points(found: FailurePointGates) -> list[str]:
    rows = (
        (of.candidate, of.incumbent, f"{of.sources} {of.dataset}", of.outcome, each.cell, each.state,
         figure(each.regression), f"{each.needed:,}" if each.needed else NONE)
        for of in found.gates
        for each in of.cells
    )  # fmt: skip
    header = (
        "candidate", "incumbent", "source images", "the gate", "cell", "the cell", "regression", "would tell",
    )  # fmt: skip
    return [
        f"Two networks of the world with an input of {found.input} pixels, on scenes drawn at {found.side}, "
        "each operation at all its levels: `tuned-256` is `sharp-256`, trained further on images that are "
        "blurred, noisy or covered, and has a copy. The photographs are those of `counterpose demo "
        "photographs`, with two of its networks. A failure point's regression is in shares of the levels. "
        "What would tell is a number of source images like these.", "",
        *table(header, rows), "",
        *(f"- `{of.candidate}` against `{of.incumbent}`: {of.verdict}" for of in found.gates),
    ]  # fmt: skip


def gate_page(file: Path = GATE, by_failure_point: Path = FAILURE_POINTS) -> str:
    """Write the page."""
    found = GateFigures.model_validate_json(file.read_bytes())
    asked = {row.candidate: row.outcomes for row in found.rows if row.sources == found.asked_for}
    red = " and ".join(f"{_share(asked[name].failed)} of {name}" for name in found.red)
    finding = (
        f"On {found.asked_for} source images, gates passed {_share(asked[found.green].passed)} of "
        f"{found.green}, and failed {red}."
    )
    kept = f"{100 * found.kept:.0f} %"
    header = ("candidate", "images that differ", "source images", "passed", "failed", "inconclusive")
    body = [
        "## Simulated candidates", "",
        f"{found.classes} classes; {found.changes} changes of each image, of which filters keep {kept}; "
        f"tolerance {100 * found.tolerance:g} points; n = {found.replicates} gates in every row.", "",
        *table(header, ([row.candidate, *_size(row), *_told(row.outcomes)] for row in found.rows)), "",
        "## The miniature suite, on rendered counterfactuals", "",
        "Source images of the world with one attribute rendered anew: true counterfactuals. Each gate draws "
        "its source images from a pool. A rounded copy is an equal candidate; a leaning network has bugs of "
        "single classes, and the unbiased one has none.", "",
        *table(
            ("candidate", "incumbent", *header[1:]),
            ([row.candidate, row.incumbent, *_size(row), *_told(row.outcomes)] for row in found.miniature),
        ), "",
        "## By failure point", "",
        *_failure_points(FailurePointGates.model_validate_json(by_failure_point.read_bytes())),
    ]  # fmt: skip
    how = [
        f"- `make validate-gate`: `python -m evaluation.gate --replicates {found.replicates}"
        f" --seed {found.seed} --out evaluation/results/gate.json`",
        "- `python -m evaluation.gate.failure_points --work FOLDER --photographs STATE"
        " --out evaluation/results/gate-failure-points.json`",
    ]
    return page("The gate on trial", finding, body, how)


def _share(rate: Estimate) -> str:
    return f"{round((rate.estimate or 0.0) * rate.n)} of {rate.n}"


def _size(row: SimulatedRow | MiniatureRow) -> tuple[str, str]:
    return f"{100 * row.disagreement:.1f} %", f"{row.sources:,}"


def _told(outcomes: Outcomes) -> list[str]:
    return [figure(each) for each in (outcomes.passed, outcomes.failed, outcomes.inconclusive)]
