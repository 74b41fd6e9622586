"""``counterpose stress-test`` and ``counterpose apply``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from counterpose._cli import completion
from counterpose._cli.classifiers import reachable
from counterpose._cli.contract_options import (
    EDITS,
    LABEL_MAP,
    SEED,
    STATISTICS,
    TASK,
    Fields,
    Option,
    request_options,
)
from counterpose._cli.datasets import (
    UNRESOLVED,
    dataset_name,
    own_texts,
    pairs_name,
    pairs_of_table,
    require_images,
    settings_of,
)
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.follow import Output, create_and_follow, drop_limit, judge_with, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.junit import stress_test_junit
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import (
    Captions,
    Classifiers,
    Dataset,
    FindingNumber,
    MaxDrop,
    Names,
    OneRun,
    Strict,
    ThresholdsGiven,
    thresholds_given,
)
from counterpose._cli.outcomes import DropLimit
from counterpose._cli.prove import MoreImages
from counterpose._cli.spending import SPENDING
from counterpose._cli.stack import require_suite
from counterpose._cli.steps import going_on
from counterpose._cli.tables import Table, counts_text
from counterpose._cli.terminal import print_note, show, write_file
from counterpose._python_function.function import PREFIX
from counterpose._sync.client import Client
from counterpose._sync.stress_tests import StressTest
from counterpose_core.commands import SHORT_ID, next_step, operation_steps
from counterpose_core.contract.interventions import Intervention, interventions_of
from counterpose_core.contract.recipes import NATIVE
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_core.errors import InvalidRequest, UnknownEditType
from counterpose_core.types import EDIT_TYPES, EditType

SHOWN_INSIGHTS = 10

Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        metavar="",
        help="Go on even if the images are unlike those that the suite was trained on.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Say what it takes and can prove, and start nothing.")
]
SuiteOfRun = Annotated[
    str | None,
    typer.Option(
        "--suite",
        metavar="SUITE",
        help="Start Counterpose here with this suite if it does not run; default: what runs.",
        show_default=False,
    ),
]
JUnit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="With --max-drop: write JUnit XML to this file."),
]
NewSeed = Annotated[int | None, typer.Option(metavar="N", help="Default: the run's seed plus one.")]


EXAMPLES = examples(
    "counterpose stress-test demo --classifier leaning-resnet --report report.html",
    "counterpose stress-test demo --classifier leaning-resnet --max-drop 0.05",
    # Of photographs, a dry run says whether the suite knows such images.
    "counterpose stress-test photos/ --classifier timm:resnet50 --dry-run",
    codes=True,
)
APPLY_EXAMPLES = examples("counterpose apply --finding 1 --report applied.html", codes=True)


def _edit_types(names: list[str]) -> list[EditType]:
    # Checked here, not by the contract, whose message would name the position and not the edit type.
    for name in names:
        if name not in EDIT_TYPES:
            raise UnknownEditType(f"unknown edit type {name!r}: choose from {', '.join(EDIT_TYPES)}")
    return cast("list[EditType]", names)


def _size(text: str) -> int | None:
    """Return the number of pixels, or None for each image's own.

    Raises:
        InvalidRequest: the size is no number of pixels.
    """
    if text != NATIVE and not text.isdecimal():
        raise InvalidRequest(f"--size is a number of pixels or {NATIVE}, not {text!r}")
    return None if text == NATIVE else int(text)


def _excluded(pairs: list[str]) -> dict[str, list[str]]:
    """Return the operations that are excluded for a class, by class.

    Raises:
        InvalidRequest: one is not written CLASS=NAME.
    """
    excluded: dict[str, list[str]] = {}
    for pair in pairs:
        label, equals, name = pair.rpartition("=")
        if not (label and equals and name):
            raise InvalidRequest(f"--exclude-operation is CLASS=NAME, such as 6=rotation, not {pair!r}")
        excluded.setdefault(label, []).append(name)
    return excluded


@request_options(
    StressTestCreate,
    LABEL_MAP,
    TASK,
    Option("edit_types", "TYPE", "--edit-type", "Default: all", read=_edit_types, panel=EDITS),
    Option("max_edits_per_image", "N", panel=EDITS),
    Option(
        "interventions",
        "EDIT",
        "--edit",
        "As 'husky=>schnauzer,poodle', '=>in the snow', 'in the rain=>'; with --max-edits-per-image 0 no "
        "other edit is made",
        read=interventions_of,
        panel=EDITS,
    ),
    Option("lance_r_edits_per_image", "N", panel=EDITS),
    Option("preset", "NAME", more="Such as quick", panel=EDITS, complete=completion.presets),
    Option("selection", "RULE", panel=EDITS),
    Option("strength", "FRACTION", panel=EDITS),
    Option("transforms.operations", "NAME", "--operation", "Such as rotation", panel=EDITS),
    Option("transforms.levels", "N", "--level", panel=EDITS),
    Option(
        "transforms.size",
        "PIXELS",
        "--size",
        says=f"Longest side to which images are reduced before an operation, or {NATIVE}; default: 512",
        read=_size,
        default=None,
        once=True,
        panel=EDITS,
    ),
    Option("transforms.among", "CLASSES", "--among", "Default: dataset", default=None, panel=EDITS),
    Option(
        "transforms.excluded",
        "CLASS=NAME",
        "--exclude-operation",
        "As 6=rotation",
        read=_excluded,
        panel=EDITS,
    ),
    Option("transforms.backgrounds", "DATASET", "--backgrounds", "Or a folder of them", panel=EDITS),
    Option(
        "transforms.pairs",
        "TABLE",
        "--pairs",
        says="Images made elsewhere of those of the folder, in the place of operations: a table (.csv or "
        ".jsonl) with source, counterfactual, change and, if any, level and control; or their dataset",
        panel=EDITS,
    ),
    Option("transforms.masks", "WHOSE", "--masks", "Default: any", default=None, panel=EDITS),
    Option(
        "transforms.severity",
        "PLAN",
        "--severity",
        says="How the level is found at which each image fails: `grid` asks every level of it, `adaptive` "
        "every level of a tenth of the images, and of the others as few as find it; all five without --level",
        panel=EDITS,
    ),
    Option(
        "transforms.severity_loss",
        "SHARE",
        "--severity-loss",
        says="Loss of accuracy of which --severity tells at which level it is reached. Default: 0.1",
        default=None,
        panel=EDITS,
    ),
    Option("transforms.least_loss", "SHARE", "--least-loss", "Default: 0.05", default=None, panel=EDITS),
    Option("limit", "N"),
    *SPENDING,
    Option("refused_words", "WORD", "--refuse-word", panel=EDITS),
    Option("exclude", "IMAGE", more="As cat/3.png"),
    Option("region", "WHERE", panel=EDITS),
    Option("preservation", "WHOSE", panel=EDITS),
    Option("refused_faults", "FAULT", "--refuse-fault", "Such as moved", panel=EDITS),
    Option("judges", "NAME", "--judge", "Default: clip", panel=EDITS),
    Option("near_duplicates", "COSINE", more="Such as 0.999", panel=STATISTICS),
    SEED,
    Option("confirm", panel=STATISTICS),
    Option("confirm_share", "SHARE", panel=STATISTICS),
)
def stress_test(
    dataset: Dataset,
    classifier: Classifiers,
    fields: Fields,
    *,
    suite: SuiteOfRun = None,
    threshold: ThresholdsGiven = None,
    anyway: Anyway = False,
    dry_run: DryRun = False,
    captions: Captions = None,
    names: Names = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    junit: JUnit = None,
    output: Output,
    client: Client,
) -> None:
    """Stress-test classifiers on a dataset (LANCE)."""
    output.check(junit)
    limit_of_drop = drop_limit(max_drop, strict, junit)
    own = own_texts(captions, names)
    # The whole request is checked before a folder is uploaded: a mistake must leave nothing behind.
    fixed: dict[str, Any] = {
        "dataset": UNRESOLVED,
        "classifiers": _names(classifier),
        "thresholds": thresholds_given(threshold),
        "outside_suite": "continue" if anyway else "stop",
    }
    transforms = fields.get("transforms", {})
    if (backgrounds := transforms.get("backgrounds")) and Path(backgrounds).is_dir():
        transforms["backgrounds"] = UNRESOLVED
    if (table := transforms.get("pairs", "")).endswith((".csv", ".jsonl")):
        pairs_of_table(table, dataset, own)
        transforms["pairs"] = UNRESOLVED
    settings = settings_of(StressTestCreate.model_validate(fixed | fields))
    # Before anything starts for it.
    require_images(dataset, own)
    require_suite(suite, client.address)
    named: dict[str, str] = {}
    if transforms.get("backgrounds") == UNRESOLVED:
        named["backgrounds"] = dataset_name(client, backgrounds)
    if transforms.get("pairs") == UNRESOLVED:
        named["pairs"] = pairs_name(client, table, dataset, own)

    def request(specs: list[str]) -> dict[str, Any]:
        return _request(dataset_name(client, dataset, own), specs, settings, named)

    if dry_run:
        with going_on("planning the run"):
            found = client.stress_tests.estimate(**request(reachable(client, classifier, detach=False)))
        show(found, str(found), output.as_json)
        return
    serve_and_follow(
        client,
        classifier,
        lambda specs: client.stress_tests.create(**request(specs)),
        output,
        judge=judge_with(limit_of_drop),
        write=partial(_write_junit, junit=junit, limit=limit_of_drop),
    )


def _request(
    dataset: str, specs: list[str], settings: dict[str, Any], named: dict[str, str]
) -> dict[str, Any]:
    """The fields of a request, with the names of datasets in the place of folders and tables."""
    asked = {**settings, "dataset": dataset, "classifiers": specs}
    return asked | ({"transforms": settings["transforms"].model_copy(update=named)} if named else {})


def _write_junit(
    summary: StressTestSummary, ended: ExitCode, *, junit: Path | None, limit: DropLimit | None
) -> None:
    if junit is not None and limit is not None:
        write_file(junit, stress_test_junit(summary, limit, ended))


@request_options(StressTestCreate)
def apply(
    finding: FindingNumber,
    *,
    run: OneRun = "@last",
    dataset: MoreImages = None,
    seed: NewSeed = None,
    output: Output,
    client: Client,
) -> None:
    """Apply one finding's edit or operation to every image of the run's dataset, or another's.

    An operation whose finding is of one class, to the images of that class. The report shows the effect by
    class.
    """

    def create() -> StressTest:
        found = client.runs.get(run, kind="stress-test")
        assert isinstance(found, StressTest)
        where = None if dataset is None else dataset_name(client, dataset)
        applied = found.apply(finding, dataset=where, seed=seed)
        request = applied.run.resolved_config["request"]
        edits = [Intervention.model_validate(each) for each in request["interventions"]]
        chosen = request.get("transforms") or {}
        changes = ", ".join([*(edit.in_words() for edit in edits), *chosen.get("operations", ())])
        left_out = chosen.get("excluded", {})
        classes = [name for name in applied.run.resolved_config.get("classes", ()) if name not in left_out]
        of = f"the class {classes[0]!r} in " if left_out and len(classes) == 1 else ""
        # Of others nothing is made: they are dropped as not applicable.
        saying = "".join(f" whose caption says “{each.removed}”" for each in edits[:1] if each.removed)
        print_note(f"every image of {of}{applied.run.dataset}{saying}: {changes}; seed {request['seed']}")
        return applied

    create_and_follow(create, output)


def _names(classifiers: list[str]) -> list[str]:
    # Of the request that is checked before a function is imported and served.
    return [
        spec.removeprefix(PREFIX).replace(":", ".") if spec.startswith(PREFIX) else spec
        for spec in classifiers
    ]


def stress_test_text(summary: StressTestSummary) -> str:
    """What `stress_test_figures` says, and how to open the report."""
    return f"{stress_test_figures(summary)}\nreport: counterpose open {summary.run_id[:SHORT_ID]}"


def stress_test_figures(summary: StressTestSummary) -> str:
    """The verdicts, findings, each classifier's accuracies, counts, cost and the first insights."""
    rows = [
        (name, model.original.rate, model.reconstruction.rate, model.counterfactual.rate)
        for name, model in summary.models.items()
    ]
    accuracies = Table(("classifier", "original", summary.control_name, "counterfactual"), rows)
    shown = [str(accuracies), ""] if summary.has_accuracy else []
    counts = [f"items: {counts_text(summary.counts)}"]
    counts += [f"dropped: {counts_text(summary.dropped)}"] if summary.dropped else []
    counts += [f"cost: {summary.cost}", *summary.spending_lines]
    # An insight is what a run says that has no findings.
    insights = [] if summary.findings else [each.sentence for each in summary.insights[:SHOWN_INSIGHTS]]
    warnings = [line for told in summary.warnings for line in (told, "")]
    warnings += [*map(str, summary.baseline), ""] if summary.baseline else []
    preserved = [] if summary.preservation is None else [*summary.preservation.lines, ""]
    head = [*warnings, *_verdicts(summary), "", *_findings(summary)]
    return "\n".join([*head, *shown, *preserved, *counts, *insights])


def _verdicts(summary: StressTestSummary) -> list[str]:
    """The verdict's lines, with its state before the sentence on each classifier."""
    states = {each.sentence: each.state.replace("-", " ") for each in summary.verdicts}
    return [f"{states[line]}: {line}" if line in states else line for line in summary.verdict.splitlines()]


def _findings(summary: StressTestSummary) -> list[str]:
    found: list[str] = []
    for each in summary.findings[:SHOWN_INSIGHTS]:
        found.append(f"finding {each.number} ({each.standing}): {each.sentence}")
        step = next_step(summary, each)
        found += [f"  {step.title[:1].lower()}{step.title[1:]}: {step.command}"] if step else []
    steps = [f"{step.title[:1].lower()}{step.title[1:]}: {step.command}" for step in operation_steps(summary)]
    return [*found, *([""] if found else []), *summary.operation_lines, *steps, *([""] if steps else [])]


def _says_something(summary: StressTestSummary) -> bool:
    # A proof is asked for to end a suspicion.
    open_still = {"cannot-tell", "test-unfit"} | ({"suspected"} if summary.config.get("proof") else set())
    if summary.verdicts:
        return bool({verdict.state for verdict in summary.verdicts} - open_still)
    return any(each.kept for each in summary.interventions)


RUNS = RunsOfKind(
    text=stress_test_text,
    judge=judged_by(_says_something),
    command=stress_test,
    submitted=examples(
        "counterpose submit stress-test --cluster gpus --workers 8 --dataset pets --classifier timm:resnet50",
        "counterpose submit stress-test --cluster gpus --workers 64 --dataset "
        "'s3://bucket/shard-{000000..000099}.tar' --classifier timm:resnet50 --detach",
        codes=True,
    ),
)
