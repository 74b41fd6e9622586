"""The page about editors on PIE-Bench's format: ours on rendered pairs, the published table beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, table
from evaluation.paths import RESULTS
from evaluation.pie_bench.data import TYPES
from evaluation.pie_bench.figures import ContestantFigures, EditFigures

EDITS = RESULTS / "edits.json"
PUBLISHED = Path(__file__).parents[1] / "pie_bench/published.json"
SCALES: Mapping[str, float] = {
    "structure": 1e3,
    "psnr": 1,
    "lpips": 1e3,
    "mse": 1e4,
    "ssim": 1e2,
    "clip": 1,
    "clip_edited": 1,
    "target_psnr": 1,
    "target_ssim": 1e2,
    "target_psnr_edited": 1,
    "reconstruction_psnr": 1,
}
"""What the published table multiplies each metric by."""
PLACES = ("structure", "psnr", "lpips", "mse", "ssim", "clip", "clip_edited")
TRUTHS = ("target_psnr", "target_ssim", "target_psnr_edited")
COMPARED = ("psnr", "ssim", "clip", "target_psnr")
COMPARED_HEADS = ("PSNR, dB", "SSIM x1e2", "CLIP whole", "PSNR to the true result, dB", "pairs")
TRUTH_HEADS = (
    "editor",
    "shows what was asked",
    "nothing else changed",
    "n",
    "PSNR to the true result, dB",
    "SSIM to it x1e2",
    "PSNR inside the mask, dB",
)
COST_HEADS = (
    "editor",
    "kept by the gate",
    "n",
    "dropped, by the first criterion",
    "PSNR of the reconstruction, dB",
    "evaluations",
    "seconds of a core",
)
CONTROLS = """`transform:` is an operation on the image and edits nothing: a metric that likes it says
nothing of edits. `true-target` is the rendering of what was asked for, the best that an editor can do. PSNR,
MSE and SSIM have fewer pairs: a change of all of an image has no outside, and an equal outside no PSNR."""
NO_COMPARISON = """Stable Diffusion 1.4 (PnP: 1.5) on 700 photographs and paintings of 512 pixels, without
intervals. **The two tables cannot be compared row by row**: other images, another model, another size, and
another CLIP. What compares is the order of methods within a table, and what moves it."""
INTERVALS = """Intervals are 95 % and over pairs: the wider of a BCa bootstrap (seeded) and Student's t; of
shares Wilson's or Clopper and Pearson's. Where all pairs agree, it is the exact bound on the share that would
differ."""
LEAST_OF_TYPE = 5
"""Pairs of a type below which it has no row."""


def read_edits(file: Path = EDITS) -> EditFigures:
    """Return the figures."""
    return EditFigures.model_validate_json(file.read_bytes())


def edits_page(found: EditFigures) -> str:
    """Write the page."""
    published = json.loads(PUBLISHED.read_bytes())
    named = found.contestants.items()
    heads = ("editor", "pairs", *published["columns"][2:])
    rows = ([*row[:2], *(f"{number:.2f}" for number in row[2:])] for row in published["rows"])
    body = [
        *_section("Outside the mask, and CLIP", table(heads, (_metrics(*row) for row in named)), [CONTROLS]),
        *_section(
            "The published table",
            table(published["columns"], rows),
            [f"Source: {published['source']}. {NO_COMPARISON}"],
            table(("metric", "held against the published evaluation"), published["definitions"]),
        ),
        *_section("What only a rendered set can tell", table(TRUTH_HEADS, (_truth(*row) for row in named))),
        *_section("What it takes", table(COST_HEADS, (_costs(*row) for row in named if row[1].costs))),
        *_section(
            f"Less `{found.reference}`, on the same pairs",
            table(
                ("editor", *COMPARED_HEADS), ([f"`{k}`", *_compared(v)] for k, v in found.differences.items())
            ),
        ),
        *_section("By type", table(("editor", "type", *COMPARED_HEADS), _types(found))),
    ]
    return page("Editors on PIE-Bench's format", finding(found), body[:-1], _how(found))


def finding(found: EditFigures) -> str:
    """Say what each preset leaves as it was, and how often it does what was asked."""
    told = [
        f"`{name}` leaves the rest at {figure(one.metrics.get('psnr'), 1)} dB and shows what was asked in "
        f"{figure(one.shares.get('success'), 2)} of {one.pairs} pairs"
        for name, one in found.contestants.items()
        if one.costs
    ]
    return f"On rendered pairs with true masks: {'; '.join(told)}."


def _section(title: str, *parts: Iterable[str]) -> list[str]:
    return [f"## {title}", "", *(line for part in parts for line in (*part, ""))]


def _plain(estimate: Estimate | None, scale: float = 1) -> str:
    if estimate is None or estimate.estimate is None:
        return NONE
    low, high = (scale * (end or 0.0) for end in (estimate.low, estimate.high))
    return f"{scale * estimate.estimate:.1f} ({low:.1f} to {high:.1f})"


def _scaled(one: ContestantFigures, metric: str) -> str:
    estimate = one.metrics.get(metric)
    return NONE if estimate is None else f"{_plain(estimate, SCALES[metric])}, n={estimate.n}"


def _metrics(name: str, one: ContestantFigures) -> Sequence[str]:
    return [f"`{name}`", str(one.pairs), *(_scaled(one, metric) for metric in PLACES)]


def _truth(name: str, one: ContestantFigures) -> Sequence[str]:
    success, fidelity = one.shares.get("success"), one.shares.get("fidelity")
    near = (_scaled(one, metric) for metric in TRUTHS)
    return [f"`{name}`", figure(success, 2), *cells(fidelity, 2), *near]


def _costs(name: str, one: ContestantFigures) -> Sequence[str]:
    gate = ", ".join(f"{reason} {number}" for reason, number in sorted(one.gate.items())) or "none"
    spent = f"{one.costs.get('evaluations', 0):.0f}", f"{one.costs['cpu_seconds']:.2f}"
    redrawn = _scaled(one, "reconstruction_psnr")
    return [f"`{name}`", *cells(one.shares.get("kept"), 2), gate, redrawn, *spent]


def _compared(metrics: Mapping[str, Estimate]) -> Sequence[str]:
    pairs = max((estimate.n for estimate in metrics.values()), default=0)
    return [*(_plain(metrics.get(name), SCALES[name]) for name in COMPARED), str(pairs)]


def _types(found: EditFigures) -> Iterator[Sequence[str]]:
    for name, one in found.contestants.items():
        if one.costs:
            for type_id, metrics in one.by_type.items():
                if metrics["clip"].n >= LEAST_OF_TYPE:
                    yield [f"`{name}`", TYPES[type_id].words, *_compared(metrics)]


def _how(found: EditFigures) -> list[str]:
    data = found.data
    counted = ", ".join(f"{TYPES[name].words} {number}" for name, number in data["pairs"].items())
    skipped = ", ".join(f"{reason}: {number}" for reason, number in data["skipped_scenes"].items())
    absent = "; ".join(f"{name}: {reason}" for name, reason in found.absent.items())
    return [
        "- `make bench-edits` makes the set and measures on it; `DATA=` names a folder of its format.",
        "- `python -m evaluation.pie_bench --help` tells of other presets, backends and networks.",
        "",
        f"The set has PIE-Bench's proportions: {counted}. Left out: {'; '.join(data['missing'].values())}.",
        f"It is of {data['split']} scenes from {data['first']:,} on, of 64 pixels; passed over were some",
        f"({skipped}). Of fewer pairs than it has, every type has its share;",
        f"a type with fewer than {LEAST_OF_TYPE} pairs has no row of its own.",
        f"Absent: {absent}.",
        "",
        INTERVALS,
    ]
