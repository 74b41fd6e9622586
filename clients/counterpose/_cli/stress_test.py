"""``counterpose stress-test`` and ``counterpose apply``."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from counterpose._cli.classifiers import reachable
from counterpose._cli.datasets import UNRESOLVED, dataset_name, own_texts, settings_of
from counterpose._cli.follow import Output, create_and_follow, drop_limit, judge_with
from counterpose._cli.groups import examples
from counterpose._cli.options import (
    AsJson,
    Captions,
    Classifiers,
    Dataset,
    Detach,
    MaxDrop,
    Names,
    OneRun,
    Report,
    Seed,
    Strict,
    ThresholdsGiven,
    Url,
    thresholds_given,
)
from counterpose._cli.tables import stress_test_text
from counterpose._cli.terminal import connected, print_note, show
from counterpose._sync.stress_tests import StressTest
from counterpose_core.contract.interventions import Intervention, interventions_of
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import UnknownEditType
from counterpose_core.types import EDIT_TYPES, EditType, Selection

EditTypes = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE", help=f"{', '.join(EDIT_TYPES)}. Repeatable; default: all."),
]
EditsPerImage = Annotated[int, typer.Option(metavar="N", help="Edits planned per image.")]
Edits = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EDIT",
        help="Your own edit: 'husky=>schnauzer,poodle', '=>in the snow', 'in the rain=>'. Repeatable; "
        "with --max-edits-per-image 0 no other edit is made.",
    ),
]
LanceREdits = Annotated[
    int, typer.Option(metavar="N", help="Edits of the random baseline LANCE-R per image; 0 skips it.")
]
Preset = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A preset of the suite, such as quick; default: the suite's own."),
]
SweepSelection = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="Choice within a sweep: paper (best direction) or released (largest that passes; faster).",
    ),
]
SelfReplace = Annotated[
    list[float] | None,
    typer.Option(
        metavar="FRACTION",
        help="A value of the sweep, from 0 to 1: the fraction of the steps with the original's "
        "self-attention. Repeatable; default: the preset's.",
    ),
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Use at most this many images.")]
RefusedWords = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="A word that no edit may add, besides subjective ones. Repeatable."),
]
Excluded = Annotated[
    list[str] | None, typer.Option(metavar="IMAGE", help="An image to skip: cat/3.png. Repeatable.")
]
NearDuplicates = Annotated[
    float | None,
    typer.Option(
        metavar="COSINE",
        help="Count images of a class once whose CLIP features have at least this cosine, such as 0.999.",
    ),
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        metavar="",
        help="Go on even if the images are unlike those that the suite was trained on.",
    ),
]
InsightNumber = Annotated[
    int, typer.Option(metavar="N", help="The insight's number in the run's report, from 1.")
]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm/--no-confirm", metavar="", help="Keep images to test on them what the screen suspects."
    ),
]
ConfirmShare = Annotated[
    float, typer.Option(metavar="SHARE", help="The share of each class's images to keep, from 0 to 1.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", metavar="", help="Say what it takes and can prove, and start nothing."),
]
NewSeed = Annotated[int | None, typer.Option(metavar="N", help="Default: the run's seed plus one.")]


EXAMPLES = examples(
    "counterpose stress-test photos/ --classifier timm:resnet50 --report report.html",
    "counterpose stress-test photos/ --classifier timm:resnet50 --dry-run",
    "counterpose stress-test demo --classifier leaning-resnet --max-drop 0.05",
    codes=True,
)
APPLY_EXAMPLES = examples("counterpose apply @last --insight 1 --report applied.html", codes=True)


def stress_test(
    dataset: Dataset,
    classifier: Classifiers,
    edit_type: EditTypes = None,
    max_edits_per_image: EditsPerImage = 5,
    edit: Edits = None,
    lance_r_edits_per_image: LanceREdits = 1,
    preset: Preset = None,
    selection: SweepSelection = "paper",
    self_replace: SelfReplace = None,
    threshold: ThresholdsGiven = None,
    limit: Limit = None,
    refuse_word: RefusedWords = None,
    exclude: Excluded = None,
    near_duplicates: NearDuplicates = None,
    anyway: Anyway = False,
    seed: Seed = 0,
    confirm: Confirm = True,
    confirm_share: ConfirmShare = 0.65,
    dry_run: DryRun = False,
    captions: Captions = None,
    names: Names = None,
    report: Report = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Stress-test classifiers on a dataset (LANCE)."""
    with connected(url) as client:
        # The whole request is checked before a folder is uploaded: a mistake must leave nothing behind.
        output = Output(report=report, detach=detach, as_json=as_json)
        limit_of_drop = drop_limit(max_drop, strict)
        own = own_texts(captions, names)
        body = StressTestCreate(
            dataset=UNRESOLVED,
            classifiers=_names(classifier) if dry_run else reachable(client, classifier, detach=detach),
            edit_types=_edit_types(list(edit_type or EDIT_TYPES)),
            max_edits_per_image=max_edits_per_image,
            interventions=interventions_of(edit or []),
            lance_r_edits_per_image=lance_r_edits_per_image,
            preset=preset,
            selection=cast("Selection", selection),
            self_replace=self_replace or None,
            thresholds=thresholds_given(threshold),
            limit=limit,
            refused_words=refuse_word or [],
            exclude=exclude or [],
            near_duplicates=near_duplicates,
            outside_suite="continue" if anyway else "stop",
            confirm=confirm,
            confirm_share=confirm_share,
            seed=seed,
        )
        if dry_run:
            name = dataset_name(client, dataset, own)
            found = client.stress_tests.estimate(dataset=name, **settings_of(body))
            show(found, str(found), as_json)
            return
        create_and_follow(
            lambda: client.stress_tests.create(
                dataset=dataset_name(client, dataset, own), **settings_of(body)
            ),
            stress_test_text,
            output,
            judge=judge_with(limit_of_drop),
            serves_function=body.classifiers != classifier,
        )


def apply(
    run: OneRun,
    insight: InsightNumber,
    seed: NewSeed = None,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Apply one insight's edit to every image of the run's dataset.

    The report shows the effect by class.
    """
    with connected(url) as client:
        output = Output(report=report, detach=detach, as_json=as_json)

        def create() -> StressTest:
            found = client.runs.get(run, kind="stress-test")
            assert isinstance(found, StressTest)
            applied = found.apply(insight, seed=seed)
            request = applied.run.resolved_config["request"]
            edits = map(Intervention.model_validate, request["interventions"])
            changes = ", ".join(edit.in_words() for edit in edits)
            print_note(f"every image of {applied.run.dataset}: {changes}; seed {request['seed']}")
            return applied

        create_and_follow(create, stress_test_text, output)


def _names(classifiers: list[str]) -> list[str]:
    # A dry run calls no classifier, so it serves no function either.
    return [spec.removeprefix("py:").replace(":", ".") for spec in classifiers]


def _edit_types(names: list[str]) -> list[EditType]:
    # Checked here, not by the contract, whose message would name the position and not the edit type.
    for name in names:
        if name not in EDIT_TYPES:
            raise UnknownEditType(f"unknown edit type {name!r}: choose from {', '.join(EDIT_TYPES)}")
    return cast("list[EditType]", names)
