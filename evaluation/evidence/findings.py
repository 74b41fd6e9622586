"""The page about runs of one and of two stages compared with rendered truth, by number of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS
from evaluation.two_stages.figures import ALL
from evaluation.two_stages.report import FindingsValidity, Omission, RunReport, StageFigures, Stages
from evaluation.validity.measures import UNKNOWN

FINDINGS = RESULTS / "findings-validity.json"
STAGES: dict[Stages, str] = {"two": "two stages", "one": "one stage"}
FATES = {
    "found": "found",
    "other-words": "shown under other words",
    "no-caption": "no caption says it",
    "no-edit": "no edit asks for it",
    "gate": "no edit passes the gate",
    "wrong-edit": "no edit shows it, by the oracle",
    "not-chosen": "not chosen for a test",
    "too-few-pairs": "too few pairs",
    "not-shown": "not shown by the test",
}
SCOPE_COLUMNS = ("pairs", "findings that are true", "n", "bias on its images", "bias on its class")
RUN_COLUMNS = ("images", "stages", "runs", "items", "images made", "evaluations", "hypotheses", "confirmed")
STATES = {"breaks": "breaks", "cannot-tell": "cannot tell", "holds": "holds"}
OMISSIONS: dict[Omission, str] = {
    "not-tested": "seen in the screen alone",
    "two-conditions": "of two conditions",
    "no-interval": "without a whole pair",
    "no-truth": "without a rendered truth",
}
COVERAGE_COLUMNS = ("stages", "verdict", "intervals that hold the true loss", "findings")
COST_COLUMNS = (
    "images",
    "stages",
    "network evaluations of a run for each true finding it proves",
    "findings",
)
Get = Callable[[StageFigures], Estimate | None]
NOT_MEASURED = ("not measured", NONE)
"""The cells of a figure that the file is older than."""

FIGURES: tuple[tuple[str, str, Get], ...] = (
    ("planted bugs found", "≥ 0.4, 0.6, 0.65, 0.9", lambda one: one.recall),
    ("planted bugs found, by a finding whose words are true", NONE, lambda one: one.recall_by_words),
    ("findings that break and whose words are true", "≥ 0.95", lambda one: one.precision_by_words),
    ("findings that break and whose edits are true", "≥ 0.95", lambda one: one.precision),
    ("findings that break and are false alarms", NONE, lambda one: one.false_alarms),
    ("controls with a finding that breaks", "≤ 0.05", lambda one: one.controls_with_a_finding),
    ("controls with a false alarm", NONE, lambda one: one.controls_with_a_false_alarm),
    ("suspicions that are true", NONE, lambda one: one.suspected_true),
    ("suspicions that are false alarms", NONE, lambda one: one.suspected_false),
    ("estimated less true loss, on the finding's images", "0 ± 0.02", lambda one: one.bias),
    ("estimated less true loss, on all of the class", NONE, lambda one: one.bias_on_class),
)


def findings_page(file: Path = FINDINGS) -> str:
    """Write the page."""
    made = FindingsValidity.model_validate_json(file.read_bytes())
    sizes = [name for name in made.figures if name != ALL]
    header = ("figure", "aim", *(cell for name in made.figures for cell in (_title(name), "n")))
    body: list[str] = []
    for stages, title in STAGES.items():
        body += [f"## Runs of {title}", "", *table(header, _figures(made, stages)), ""]
    body += [
        "## Where bugs are lost", "",
        *table(("images", "stages", *FATES.values()), _fates(made, sizes)), "",
        "## What a confirmed finding speaks of", "",
        *table(SCOPE_COLUMNS, _scopes(made)), "",
        "## Intervals beside verdicts", "",
        *table(COVERAGE_COLUMNS, _coverage(made)), "",
        *_left_out(made),
        "## What the runs took", "",
        *table(RUN_COLUMNS, _runs(made, sizes)),
        "",
        "## What a proven finding took", "",
        *table(COST_COLUMNS, _costs_of_proofs(made)), "",
        "## Aims", "",
        *table(("aim", "target", "reached", "n", "met"), _aims(made)),
    ]  # fmt: skip
    return page("Findings compared with rendered truth", finding(made), body, _how(made))


def finding(made: FindingsValidity) -> str:
    """Say what two stages find at each number of images."""
    recalls = "; ".join(
        f"{figure(one['two'].recall, 2)} of {size(one['two'].recall)} with {name} images"
        for name, one in made.figures.items()
        if name != ALL
    )
    figures = made.figures[ALL]["two"]
    edits, words = figures.precision, figures.precision_by_words
    by_edits = f"{figure(edits, 2)} are true of their edits (n = {size(edits)})"
    by_words = (
        "whether their words are true is not measured"
        if words is None
        else f"{figure(words, 2)} of their words (n = {size(words)})"
    )
    return (
        f"Tests of two stages find this share of the planted bugs whose true drop is 0.3 or more: {recalls}."
        f" Of the findings that break, {by_edits}; {by_words}."
    )


def _title(name: str) -> str:
    return "all sizes" if name == ALL else f"{name} images"


def _figures(made: FindingsValidity, stages: Stages) -> Iterator[list[str]]:
    for title, aim, get in FIGURES:
        found = (get(one[stages]) for one in made.figures.values())
        pairs = (NOT_MEASURED if one is None else cells(one) for one in found)
        yield [title, aim, *(cell for pair in pairs for cell in pair)]


def _fates(made: FindingsValidity, sizes: list[str]) -> Iterator[list[str]]:
    for name in sizes:
        for stages, title in STAGES.items():
            fates = made.figures[name][stages].fates
            yield [name, title, *(str(fates.get(fate, 0)) for fate in FATES)]


def _scopes(made: FindingsValidity) -> Iterator[list[str]]:
    titles = {"class": "of fresh images, one each", "images": "several of each image, redrawn"}
    for scope, one in made.by_scope.items():
        yield [titles[scope], *cells(one.precision), figure(one.bias), figure(one.bias_on_class)]


def _coverage(made: FindingsValidity) -> Iterator[list[str]]:
    """How many intervals hold the true loss, over all numbers of images."""
    for stages, title in STAGES.items():
        coverage = made.figures[ALL][stages].coverage
        if coverage is None:
            yield [title, "all", *NOT_MEASURED]
            continue
        for state, verdict in STATES.items():
            yield [title, verdict, *cells(coverage.by_state.get(state, UNKNOWN))]
        yield [title, "all", *cells(coverage.all)]


def _left_out(made: FindingsValidity) -> Iterator[str]:
    for stages, title in STAGES.items():
        coverage = made.figures[ALL][stages].coverage
        if coverage is not None:
            counts = (f"{coverage.left_out.get(each, 0)} {why}" for each, why in OMISSIONS.items())
            yield from (f"Left out of {title}: {', '.join(counts)}.", "")


def _runs(made: FindingsValidity, sizes: list[str]) -> Iterator[list[str]]:
    for name in sizes:
        for stages, title in STAGES.items():
            runs = [run for run in made.runs if (run.stages, str(run.size)) == (stages, name)]
            if runs:
                means = [sum(each) / len(runs) for each in zip(*map(_costs, runs), strict=True)]
                yield [name, title, str(len(runs)), *(f"{mean:,.1f}" for mean in means)]


def _costs_of_proofs(made: FindingsValidity) -> Iterator[list[str]]:
    """What a true finding took, at each number of images."""
    for name, one in made.figures.items():
        for stages, title in STAGES.items():
            cost = one[stages].evaluations_per_proof
            images = "all" if name == ALL else name
            yield [images, title, *(NOT_MEASURED if cost is None else cells(cost, 0))]


def _costs(run: RunReport) -> tuple[int, ...]:
    return run.items, run.made, run.evaluations, run.hypotheses, run.confirmed


def _aims(made: FindingsValidity) -> Iterator[list[str]]:
    for aim in made.aims:
        met = {None: "unknown", True: "yes", False: "**no**"}[aim.met]
        yield [aim.name, aim.aim, *cells(aim.reached), met]


def _how(made: FindingsValidity) -> list[str]:
    setting = made.setting
    missing = f" Not run: {', '.join(setting.missing)}." if setting.missing else ""
    return [
        f"- `make validate-findings SEED={setting.seed}`: {setting.sources} validation images of seed"
        f" {setting.seed}, {setting.edits_per_source} planned edits each under `{setting.preset}`, four"
        f" classifiers a run ({', '.join(setting.rosters)}).{missing}",
        "",
        "The number of images counts all of a run, screened and kept; both kinds of run have the same budget",
        "of items. Folders are nested: the images of the smaller are the first of the larger, and their",
        "edits are made once. A finding is true if it names a planted bug, or if renderings of all images of",
        "its class to which its changes apply show a drop with a lower bound above 0.05; it is a false alarm",
        "if the upper bound is below 0.05. That judges its edits. Its words are true if renderings of what",
        "its sentence says show the same drop: “is gone” is a removal without replacement, and “is there” an",
        "addition without removal, whatever its edits did. An interval is held against the mean true loss on",
        "all of the class, or on the finding's own images where these alone were drawn again. A control is a",
        "classifier that was taught no bug; each run of it is one trial. Intervals of shares of bugs and",
        "findings resample classifiers. Nothing was chosen or tuned on this seed.",
        "[How it works](../design/screen-and-confirm.md), [how truth is made](../design/validity.md).",
    ]
