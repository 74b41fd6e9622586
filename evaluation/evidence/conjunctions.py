"""The page about bugs that need two conditions, compared with rendered truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS
from evaluation.two_way.report import (
    ALONE,
    TOGETHER,
    TRUE_TOGETHER,
    ConjunctionReport,
    TwoWayBugReport,
    TwoWayFigures,
    TwoWayRecord,
    TwoWayRun,
)

CONJUNCTIONS = RESULTS / "two-way.json"
FIGURES = (
    ("planted bugs of which the run met an image with both conditions", NONE, "met"),
    ("of these, tested together", NONE, "proposed_of_met"),
    ("of these, named by a finding that breaks", "≥ 0.7", "named_of_met"),
    ("findings of two conditions that break and are true", NONE, "precision"),
    ("runs without such bugs with a false one", "≤ 0.05", "false_runs"),
    ("classifiers of these runs with a false one", NONE, "false_classifiers"),
)
BUG_COLUMNS = (
    "classifier", "class", "conditions", "true fall together", "true fall alone", "planted", "met", "tested",
    "named",
)  # fmt: skip
CLAIM_COLUMNS = (
    "classifier", "class", "conditions", "loss", "true fall together", "true fall alone", "true",
)  # fmt: skip
RUN_COLUMNS = (
    "roster", "images", "classifiers", "with such bugs", "items", "conjunctions tested", "proven", "false",
)  # fmt: skip


def conjunctions_page(file: Path = CONJUNCTIONS) -> str:
    """Write the page."""
    record = TwoWayRecord.model_validate_json(file.read_bytes())
    first, body = record.figures[0], list[str]()
    body += [
        f"{first.planted} of {first.taught} bugs are planted, as renderings show: p(true class) falls by",
        f"{TOGETHER:g} or more where both conditions hold, beyond the worse one alone, and by {ALONE:g} at",
        "most under that one. A run's budget is that of its images, however many classifiers share it.", "",
    ]  # fmt: skip
    for made in record.figures:
        figures = ([title, aim, *cells(getattr(made, name), 2)] for title, aim, name in FIGURES)
        body += [
            f"## Runs of {made.together} classifiers", "",
            *table(("figure", "aim", "value", "n"), figures), "",
            "### Every bug", "",
            *table(BUG_COLUMNS, _bugs(made.bugs)), "",
            "### Every finding", "",
            *table(CLAIM_COLUMNS, _claims(made.conjunctions)), "",
            "### Every run", "",
            *table(RUN_COLUMNS, _runs(made.runs)), "",
        ]  # fmt: skip
    title = "Findings of two conditions compared with rendered truth"
    return page(title, finding(record), body[:-1], _how(first))


def finding(record: TwoWayRecord) -> str:
    """Say how many bugs of two conditions are met and named, and how many findings of them are false."""
    return " ".join(map(_finding, record.figures))


def _finding(made: TwoWayFigures) -> str:
    named = made.named_of_met
    return (
        f"Runs of {made.together} classifiers met {figure(made.met, 2)} of {size(made.met)} planted bugs that"
        f" need two conditions, and named {figure(named, 2)} of those met (n = {size(named)}); of the"
        f" findings of two conditions, {figure(made.precision, 2)} are true (n = {size(made.precision)}), and"
        f" {figure(made.false_runs, 2)} of the runs without such bugs prove a false one"
        f" (n = {size(made.false_runs)})."
    )


def _bugs(bugs: Iterable[TwoWayBugReport]) -> Iterator[list[str]]:
    for bug in bugs:
        falls = (figure(bug.drop_together, 2), figure(bug.drop_alone, 2))
        answers = map(_yes, (bug.is_planted, bug.met, bug.proposed, bug.named))
        yield [bug.classifier, bug.object_class, _named(bug.conditions), *falls, *answers]


def _claims(claims: Iterable[ConjunctionReport]) -> Iterator[list[str]]:
    for claim in claims:
        falls = (figure(each, 2) for each in (claim.estimate, claim.drop_together, claim.drop_alone))
        answer = "yes" if claim.is_true else "**no**"
        yield [claim.classifier, claim.object_class, _named(claim.conditions), *falls, answer]


def _runs(runs: Iterable[TwoWayRun]) -> Iterator[list[str]]:
    for run in runs:
        counts = (f"{count:,}" for count in (run.items, run.tested, run.proven, run.false))
        yield [run.roster, str(run.size), str(run.classifiers), _yes(run.kind == "two-way"), *counts]


def _named(conditions: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{attribute} {value}" for attribute, value in conditions)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _how(made: TwoWayFigures) -> list[str]:
    return [
        f"- `make validate-conjunctions SEED={made.seed}`: classifiers with such bugs, controls, and",
        "  classifiers with bugs of one condition, over one stretch of images.",
        "",
        "A bug labels images of its class as another class where two attributes both have a value. A run has",
        "met it if the screen saw an original or a kept edit of the class whose caption names both, whatever",
        f"the answer. A finding is true if p(true class) of renderings falls by {TRUE_TOGETHER:g} or more",
        "where both conditions hold, beyond the worse one alone, and by at most half of that under this one.",
        "Intervals of shares of bugs and findings resample classifiers; a run is one trial.",
        "These runs looked for two conditions in every class. Since then none are looked for where one",
        "change explains a class's mistakes, which proves more bugs of one condition; what that costs here",
        "is not measured yet.",
        "[How it works](../design/screen-and-confirm.md), [how truth is made](../design/validity.md).",
    ]
