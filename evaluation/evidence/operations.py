"""The page about operations on images, compared with planted sensitivities and fresh scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS
from evaluation.transforms_validity.planted import MANY
from evaluation.transforms_validity.report import (
    FALSE_BELOW,
    PLANTED_FROM,
    FailurePoints,
    FindingReport,
    LevelReport,
    PlantedReport,
    TransformsValidity,
)

OPERATIONS = RESULTS / "transforms-validity.json"
UNSEEN = RESULTS / "transforms-validity-unseen.json"
"""A stretch that nobody had looked at when the least loss came."""
FIGURES = (
    ("planted sensitivities of the whole model that are found", "≥ 0.95 at 96 images", "whole"),
    ("of one class alone, found by a finding about the class", "≥ 0.9 at 480 images", "of_class"),
    ("under one circumstance only, whose operation breaks", NONE, "circumstance"),
    ("findings that are true", "≥ 0.95", "precision"),
    ("of these, about all classes", NONE, "precision_whole"),
    ("of these, about one class", NONE, "precision_of_class"),
    ("findings by whose words anything is lost, be it below 5 points", NONE, "any_loss"),
    ("controls with a false finding", "interval not above 0.05", "false_controls"),
    ("controls with a finding by whose words nothing is shown to be lost", NONE, "groundless_controls"),
    ("tests of controls with a false finding", NONE, "false_tests"),
    ("intervals of losses that hold the truth, which has an interval, too", "≥ 0.93", "coverage"),
    ("intervals of losses that hold the measured loss itself", NONE, "coverage_plain"),
)
PLANTED = ("classifier", "operation", "from level", "where", "true loss", "planted")
FALSE = ("classifier", "images", "operation", "level", "class", "loss", "true loss")


def operations_page(file: Path = OPERATIONS, unseen: Path = UNSEEN) -> str:
    """Write the page."""
    made = TransformsValidity.model_validate_json(file.read_bytes())
    sizes = sorted(made.figures)
    body = _figures(made, "")
    if made.failure_points is not None:
        body += _levels(made.failure_points)
    later = TransformsValidity.model_validate_json(unseen.read_bytes())
    body += _figures(later, f" of the later stretch {later.seed}")
    if later.failure_points is not None:
        near, held = later.failure_points.near, later.failure_points.held
        body += [
            f"Levels within half a level of the true one: {_of(near)}; held by their intervals: {_of(held)}.",
            "",
        ]
    false = [_false(each) for each in made.findings if not each.is_true]
    body += [
        "## Every sensitivity",
        "",
        *table((*PLANTED, *(f"found at {images}" for images in sizes)), _planted(made, sizes)),
        "",
        "## Every false finding",
        "",
        *(table(FALSE, false) if false else ["None."]),
    ]
    return page("Operations on images compared with planted truth", finding(made), body, _how(made, later))


def finding(made: TransformsValidity) -> str:
    """Say how much of what is planted is found, and how much of what is found is true."""
    said = list[str]()
    for images, each in sorted(made.figures.items()):
        classes = f" and {_of(each.of_class)} of those of one class" if images >= MANY else ""
        said.append(
            f"Runs of {images} images find {_of(each.whole)} of the planted sensitivities of a whole model"
            f"{classes}; of their findings {_of(each.precision)} are true, and {_of(each.coverage)} of the"
            " intervals of losses hold the truth."
        )
    return " ".join(said)


def _figures(made: TransformsValidity, which: str) -> list[str]:
    body = list[str]()
    for images, figures in sorted(made.figures.items()):
        rows = ([title, aim, *cells(getattr(figures, name), 3)] for title, aim, name in FIGURES)
        body += [f"## Runs of {images} images{which}", "", *table(("figure", "aim", "value", "n"), rows), ""]
    return body


def _levels(told: FailurePoints) -> list[str]:
    """What adaptive runs say of the level at which the stated loss is reached."""
    bisected, runs = [each for each in told.levels if not each.in_full], str(len(told.levels))
    rows = [
        ["levels within half a level of the true one", "≥ 0.9", *cells(told.near, 3)],
        ["intervals of levels that hold the true one", "≥ 0.93", *cells(told.held, 3)],
        ["classifications, of those that every level of every image takes", NONE, f"{told.asked:.2f}", runs],
        [
            "the same of runs whose images follow the order of levels",
            NONE,
            _asked(bisected),
            str(len(bisected)),
        ],
    ]
    by_name: dict[tuple[str, str], list[LevelReport]] = {}
    for each in told.levels:
        by_name.setdefault((each.classifier, each.operation), []).append(each)
    of_each = (
        [*key, _level(own[0].true), ", ".join(map(_said, own)), str(sum(each.in_full for each in own))]
        for key, own in by_name.items()
    )
    return [
        f"## The level at which {told.loss:g} is lost",
        "",
        f"Of sensitivities of the whole model: runs of {told.images} images, all levels, adaptively.",
        "",
        *table(("figure", "aim", "value", "n"), rows),
        "",
        *table(("classifier", "operation", "true level", "said, each run", "runs in full"), of_each),
        "",
    ]


def _asked(told: Sequence[LevelReport]) -> str:
    of_grid = sum(each.of_grid for each in told)
    return f"{sum(each.classifications for each in told) / of_grid:.2f}" if of_grid else NONE


def _said(one: LevelReport) -> str:
    return f"{_level(one.level)} ({_level(one.low)} to {_level(one.high)})"


def _level(one: float | None) -> str:
    return "beyond" if one is None else f"{one:.2f}"


def _of(one: Estimate) -> str:
    return f"{figure(one, 2)} (n = {size(one)})"


def _planted(made: TransformsValidity, sizes: list[int]) -> Iterator[list[str]]:
    for each in made.planted:
        found = ("-" if images not in each.found else _yes(each.found[images]) for images in sizes)
        told = [each.operation, str(each.from_level), _where(each), figure(each.true, 2), _yes(each.planted)]
        yield [each.classifier, *told, *found]


def _where(each: PlantedReport) -> str:
    return each.object_class or " ".join(each.circumstance or ("everywhere",))


def _false(each: FindingReport) -> list[str]:
    about = [each.classifier, str(each.size), each.operation, str(each.level), each.object_class or "all"]
    return [*about, figure(each.loss, 2), figure(each.true, 3)]


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _how(made: TransformsValidity, later: TransformsValidity) -> list[str]:
    planted = Counter(each.scope for each in made.planted if each.planted)
    counts = ", ".join(f"{planted[scope]} ({scope}, from {least:g})" for scope, least in PLANTED_FROM.items())
    sets = len({run.image_set for run in made.runs})
    return [
        f"- `make validate-transforms SEED={made.seed}`: {made.classifiers} classifiers with"
        f" {len(made.planted)} sensitivities of {made.taught}, {made.controls} controls, {len(made.runs)} of"
        f" {made.planned} runs, {sets} sets of images.",
        f"- The later stretch: {later.classifiers} classifiers with {len(later.planted)} sensitivities on two"
        f" trunks, {later.controls} controls, after the least loss had come.",
        "",
        f"True losses are measured on {made.fresh:,} fresh scenes; planted, as these show it, are {counts}.",
        f"A finding is false if fresh scenes lose less than {FALSE_BELOW:g} by its words. Classifiers",
        "share a trunk, so that their errors are alike. Intervals of findings resample classifiers, those of",
        "coverage sets of images; that of controls is exact.",
        *([made.note] if made.note else []),
        "[How truth is made](../design/validity.md#operations-on-images).",
    ]
