"""``faultline stress-test`` and ``faultline apply``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from faultline._brought_datasets import UNRESOLVED, dataset_name
from faultline._classifier_commands import reachable
from faultline._ending import Detach, MaxDrop, Report, RunId, Strict, gate_of, judged_by, see_through
from faultline._folders import read_captions
from faultline._terminal import AsJson, Url, check_writable, complain, connected, show
from faultline_core.contract.interventions import Intervention, interventions_of
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import UnknownEditType
from faultline_core.types import EDIT_TYPES, EditType, Selection

Dataset = Annotated[str, typer.Option(help="A dataset's name, or a folder with one folder a class.")]
Classifiers = Annotated[
    list[str], typer.Option(help="Such as timm:resnet50 or py:module:function. Repeatable.")
]
EditTypes = Annotated[list[str] | None, typer.Option(help="An edit type. Repeatable; default: all.")]
EditsPerImage = Annotated[int, typer.Option(help="Edits planned for each picture.")]
Edits = Annotated[
    list[str] | None,
    typer.Option(
        help="An edit of your own, such as 'husky=>schnauzer,poodle', '=>in the snow' or "
        "'in the rain=>'. Repeatable; with --max-edits-per-image 0 nothing else is edited."
    ),
]
LanceREdits = Annotated[
    int, typer.Option(help="Edits of the random baseline for each picture; 0 leaves it out.")
]
Preset = Annotated[str, typer.Option(help="A preset of the suite: quick, lance, null-text.")]
Choice = Annotated[
    str,
    typer.Option(
        help="Choice over the sweep: paper (best direction) or released (largest that passes; faster)."
    ),
]
Limit = Annotated[int | None, typer.Option(help="At most so many pictures.")]
RefusedWords = Annotated[
    list[str] | None,
    typer.Option(help="A word no edit may bring in, beside subjective ones. Repeatable."),
]
Excluded = Annotated[
    list[str] | None, typer.Option(help="A picture to leave out, such as cat/3.png. Repeatable.")
]
# A default in the shell only: a first try need not choose a seed, a program must.
Seed = Annotated[int, typer.Option(help="Equal seeds give equal answers.")]
Captions = Annotated[
    Path | None,
    typer.Option(
        help='Your captions of a folder\'s pictures, as lines {"file_name": ..., "caption": ...}; '
        "default: the captioner describes them."
    ),
]


def stress_test(
    dataset: Dataset,
    classifier: Classifiers,
    edit_type: EditTypes = None,
    max_edits_per_image: EditsPerImage = 5,
    edit: Edits = None,
    lance_r_edits_per_image: LanceREdits = 1,
    preset: Preset = "quick",
    selection: Choice = "paper",
    limit: Limit = None,
    refuse_word: RefusedWords = None,
    exclude: Excluded = None,
    seed: Seed = 0,
    captions: Captions = None,
    report: Report = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Stress-test classifiers on a dataset."""
    with connected(url) as client:
        # Checked whole before a folder is uploaded: a bad request must leave nothing behind.
        gate = gate_of(max_drop, strict, report)
        brought = {} if captions is None else read_captions(captions)
        body = StressTestCreate(
            dataset=UNRESOLVED,
            classifiers=reachable(client, classifier, detach=detach),
            edit_types=_edit_types(list(edit_type or EDIT_TYPES)),
            max_edits_per_image=max_edits_per_image,
            interventions=interventions_of(edit or []),
            lance_r_edits_per_image=lance_r_edits_per_image,
            preset=preset,
            selection=cast("Selection", selection),
            limit=limit,
            refused_words=refuse_word or [],
            exclude=exclude or [],
            seed=seed,
        )
        settings = {name: getattr(body, name) for name in body.model_fields_set - {"dataset"}}
        run = client.stress_tests.create(dataset=dataset_name(client, dataset, brought), **settings)
        if detach:
            show(run.run, run.id, as_json)
            return
        ours = body.classifiers != classifier
        raise typer.Exit(see_through(run, str, report, as_json, judged=judged_by(gate), ours=ours))


def apply(
    run_id: RunId,
    insight: Annotated[
        int, typer.Option(help="Which of the run's insights, counted as in its report, from 1.")
    ],
    seed: Annotated[int | None, typer.Option(help="Default: the run's seed plus one.")] = None,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Apply an insight's edit to the run's whole dataset: its report tells the effect by class."""
    with connected(url) as client:
        check_writable(report)
        run = client.stress_tests.apply(run_id, insight, seed=seed)
        asked = run.run.resolved_config["request"]
        told = ", ".join(one.in_words() for one in map(Intervention.model_validate, asked["interventions"]))
        complain(f"run {run.id}: {told} in all of {run.run.dataset}, seed {asked['seed']}")
        if detach:
            show(run.run, run.id, as_json)
            return
        raise typer.Exit(see_through(run, str, report, as_json))


def _edit_types(names: list[str]) -> list[EditType]:
    # Asked here and not left to the contract, whose message would list the place and not the name.
    for name in names:
        if name not in EDIT_TYPES:
            raise UnknownEditType(f"no edit type is named {name!r}; there are {', '.join(EDIT_TYPES)}")
    return cast("list[EditType]", names)
