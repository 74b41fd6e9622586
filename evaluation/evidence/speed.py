"""The page about the editor's speed and exactness: every row of results/editor.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.benchmarks.report import EditorBenchmark, Row
from evaluation.evidence.markdown import NONE, page, table
from evaluation.paths import RESULTS

EDITOR = RESULTS / "editor.json"
LAYOUT = RESULTS / "layout.json"
PRODUCT = RESULTS / "product.json"
START = RESULTS / "start.json"
PHOTOGRAPHS = RESULTS / "photographs-cost.json"
CARDS = (RESULTS / "sd14-cuda.json", RESULTS / "sdxl-cuda.json")
GATES = {
    "E1": "Same results as the reference",
    "E2": "Evaluations of the exact mode",
    "E3": "Evaluations of the fast modes",
    "E4": "Speed of edits",
    "E5": "Speed on an accelerator",
    "E6": "Waiting for the device",
    "E7": "Memory",
    "E8": "The step engine",
    "E9": "What serving adds",
    "P1": "The whole product",
    "P2": "Starting, and rest",
    "P3": "Operations on photographs, beside a plain script",
    "S1": "Speed of scorer and classifiers",
    "T1": "Text-to-image in batches",
    "L1": "Memory format and compiled blocks",
}
WALLS = {
    "E2": "null-text's own optimisation is 1,128 of 4,110 F at J = 470, and no sweep saves any of it",
    "E4": "the exact mode has 2.1 times fewer F, packing gives the rest; the reference runs on our blocks",
    "E5": "convolutions, products and attention alone reach 558 TFLOP/s of SD 1.4 in "
    "bf16; SDXL was not compiled",
    "E6": "each inner iteration reads the losses of all images, to stop those that are done; the copy begins "
    "before the backward pass, so no operator makes the device idle",
    "E8": "64 requests of one row resume 64 walks in Python each step, 18 us each; batches of requests alike "
    "leave only 9 % of their rows empty on this trace, so there is no second half to win",
    "E9": "of the 28 s beside the engines, by process, one run: gateway and worker 7, Ray's proxy 6, Ray's "
    "controller, head and dashboards 8, the rest HTTP, threads and the store within the replicas",
    "P1": "some 8,500 evaluations of 0.52 GFLOP, at 70 to 75 GFLOP/s of one core, are 60 s of a run of 77 s: "
    "twice as fast needs half of the evaluations, that is another method; measured before residual blocks "
    "and GEGLUs spared passes over memory",
    "P2": "each of Ray's seven workers looks for signals a hundred times a second, 0.4 % of a processor each",
    "T1": "a batch of 16 does a row in 7 ms, one row alone takes 16: more than 2.2 times is not there",
}
"""Why a gate's targets are missed, by gate."""
HEADER = ("measure", "target", "value", "range", "n", "met")


def speed_page(
    file: Path = EDITOR,
    others: Sequence[Path] = (LAYOUT, PRODUCT, START, PHOTOGRAPHS),
    cards: Sequence[Path] = CARDS,
) -> str:
    """Write the page."""
    report = EditorBenchmark.model_validate_json(file.read_bytes())
    accelerators = [EditorBenchmark.model_validate_json(card.read_bytes()) for card in cards]
    more = [EditorBenchmark.model_validate_json(other.read_bytes()) for other in others]
    rows = _without_answered(report.rows, [row for each in accelerators for row in each.rows])
    rows += [row for each in more for row in each.rows]
    machine = report.machine
    device = "" if machine.device is None else f", {machine.device}"
    body = ["## At a glance", "", *table(("gate", "met", "missed, and the wall"), _glance(rows)), ""]
    body += [line for gate, title in GATES.items() for line in _section(gate, title, rows)]
    how = [
        "- `make bench` (`QUICK=1` for a minute, `ONLY=E2,E3` for some rows)",
        "- `make bench MODEL=sd14 DEVICE=cuda` (`sd21`, `sdxl`) measures an accelerator, with random weights",
        "- `python -m evaluation.benchmarks.layout` measures L1, by the processor time of one thread",
        "- `make bench-product` measures P1 and E9: the stress test of an earlier commit, of this one, and",
        "  over the engines in one process, in turn; all make the same 384 items, without confirmation",
        "- `make bench-product START=1` measures P2: the start of an earlier commit and of this one, in turn",
        "- `make bench-photographs FOLDER=photographs/` measures P3: 20 operations on 200 photographs,",
        "  by a stress test and by a script that does the same in one process, in turn",
        "",
        "Values are medians with their range over n images or repetitions. F is one evaluation of the UNet;",
        "N is the number of images, E of edits per image, S of values in the sweep, J of inner iterations.",
        "Counts are exact. Times are ratios of interleaved runs: they depend on other load and are advisory.",
        "",
        f"- Machine: {machine.processor}, {machine.cores} cores, {machine.threads} thread(s){device};"
        f" Python {machine.python}, torch {machine.torch}, diffusers {machine.diffusers}",
        "- Settings: " + ", ".join(f"{name} {value}" for name, value in report.settings.items()),
        *(_card(each) for each in accelerators),
        *_remark(report),
    ]
    return page("Speed and exactness of the editor", finding(rows), body, how)


def _without_answered(rows: Sequence[Row], measured: Sequence[Row]) -> list[Row]:
    """Leave out the open rows whose gate and target a measurement on an accelerator has."""
    answered = {(row.gate, row.target) for row in measured}
    kept = [row for row in rows if row.value is not None or (row.gate, row.target) not in answered]
    return [*kept, *measured]


def _card(report: EditorBenchmark) -> str:
    machine = report.machine
    return (
        f"- Rows of {report.settings['model']} in bf16: {machine.device}, torch {machine.torch},"
        f" diffusers {machine.diffusers}, random weights"
    )


def finding(rows: Sequence[Row]) -> str:
    """Say how many targets are met, and name the gates of those that are not."""
    judged = [row for row in rows if row.met is not None]
    missed = [row.gate for row in judged if not row.met]
    opened = sum(row.value is None for row in rows)
    gates = ", ".join(f"{gate} ({missed.count(gate)})" for gate in dict.fromkeys(missed))
    missing = f"; missed are {gates}" if missed else ""
    return (
        "Compared with plain implementations, the editor and the product around it meet"
        f" {len(judged) - len(missed)} of {len(judged)} targets{missing};"
        f" {opened} further targets have not been measured."
    )


def _glance(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return a line for each gate that has targets: how many are met, and why the others are not."""
    lines = []
    for gate, title in GATES.items():
        judged = [row for row in rows if row.gate == gate and row.met is not None]
        met = sum(bool(row.met) for row in judged)
        opened = sum(row.gate == gate and row.value is None for row in rows)
        if judged or opened:
            wall = WALLS.get(gate, "see below") if met < len(judged) else NONE
            told = f"{met} of {len(judged)}" + (f", {opened} not measured" if opened else "")
            lines.append((f"{gate} {title}", told, wall))
    return lines


def _section(gate: str, title: str, rows: Sequence[Row]) -> list[str]:
    found = [row for row in rows if row.gate == gate]
    return [f"## {gate}: {title}", "", *table(HEADER, map(_line, found)), ""] if found else []


def _remark(report: EditorBenchmark) -> list[str]:
    # Fewer steps share less between the values of a sweep, so the targets say nothing there.
    if report.settings.get("size") in ("quick", "tiny"):
        return ["- This size only shows that everything runs: the targets are set for the full size."]
    return []


def _line(row: Row) -> tuple[str, ...]:
    met = {None: NONE, True: "yes", False: "**no**"}[row.met] + (" (advisory)" if row.advisory else "")
    return row.measure, row.target or NONE, _number(row.value), _range(row), str(row.n), met


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _range(row: Row) -> str:
    if row.low is None or row.high is None or row.low == row.high:
        return NONE
    return f"{_number(row.low)} to {_number(row.high)}"
