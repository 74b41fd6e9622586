"""``faultline``: the SDK's verbs from a shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from faultline import _classifier_commands
from faultline._client import Client
from faultline._folders import folder_digest, pictures_in, read_captions
from faultline._gate import Exit, Gate, exit_for_state
from faultline._progress import follow
from faultline._stress_test_run import StressTest
from faultline._terminal import (
    AsJson,
    Url,
    check_writable,
    complain,
    connected,
    ending_well,
    show,
    show_runs,
    write_report,
)
from faultline_core.contract.interventions import Intervention, interventions_of
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import InvalidRequest, UnknownEditType
from faultline_core.types import EDIT_TYPES, EditType, Selection

app = typer.Typer(help="Find where an image classifier breaks.", no_args_is_help=True, add_completion=False)

RunId = Annotated[str, typer.Argument(help="The run's id.")]
Report = Annotated[Path | None, typer.Option(help="Write the HTML report there.")]
MaxDrop = Annotated[float | None, typer.Option(help="Gate: fail above this accuracy drop, 0 to 1.")]
Strict = Annotated[bool, typer.Option(help="Gate: count inconclusive as failed.")]

UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""


def _gate(max_drop: float | None, strict: bool, report: Path | None) -> Gate | None:
    """What judges the run; refused now, not after hours, if it or the report can come to nothing."""
    check_writable(report)
    if max_drop is None and strict:
        raise InvalidRequest("--strict has nothing to judge without --max-drop")
    return None if max_drop is None else Gate(max_drop, strict)


def _dataset_name(client: Client, dataset: str, captions: dict[str, str]) -> str:
    """The dataset's name; a folder is uploaded first, under a name made from its content.

    A dataset that the gateway knows goes before a folder of the same name, unless captions come along.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        if captions or os.sep in dataset:
            raise InvalidRequest(f"{dataset!r} is no folder")
        return dataset
    known = {each.name for each in client.datasets.list().datasets if each.n_sources}
    if dataset in known and not captions:
        return dataset
    letters = (c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in folder.resolve().name)
    stem = "".join(letters).strip("._-") or "images"
    # The content is in the name: a folder that has changed is another dataset, one that has not is not sent.
    name = f"{stem[:64]}-{folder_digest(pictures_in(folder, captions))}"
    if name not in known:
        for rejected in client.datasets.upload(folder, name=name, captions=captions).rejected:
            complain(f"left out {rejected.filename}: {rejected.code}: {rejected.detail}")
    return name


def _edit_types(names: list[str]) -> list[EditType]:
    # Asked here and not left to the contract, whose message would list the place and not the name.
    for name in names:
        if name not in EDIT_TYPES:
            raise UnknownEditType(f"no edit type is named {name!r}; there are {', '.join(EDIT_TYPES)}")
    return cast("list[EditType]", names)


def _finish(run: StressTest, report: Path | None, as_json: bool, gate: Gate | None) -> Exit:
    summary = run.summary()
    # Figures first: a report that cannot be written must not cost them.
    show(summary, str(summary), as_json)
    if report is not None:
        write_report(report, run.report())
    ended = exit_for_state(run.run.state)
    if ended is not Exit.PASSED:
        complain(f"the run ended {run.run.state}: {summary.failed_codes or 'nothing failed'}")
        return ended
    if gate is None:
        return Exit.PASSED
    complain(gate.explain(summary))
    return gate.verdict(summary)


def _see_through(
    run: StressTest, report: Path | None, as_json: bool, gate: Gate | None, *, ours: bool = False
) -> Exit:
    goes_on = "without your function: faultline cancel" if ours else "faultline wait"
    with ending_well(f"; the run goes on: {goes_on} {run.id}"):
        follow(run, quiet=as_json)
        return _finish(run, report, as_json, gate)


@app.command("stress-test")
def stress_test(
    dataset: Annotated[str, typer.Option(help="A dataset's name, or a folder with one folder a class.")],
    classifier: Annotated[
        list[str], typer.Option(help="Such as timm:resnet50 or py:module:function. Repeatable.")
    ],
    edit_type: Annotated[
        list[str] | None, typer.Option(help="An edit type. Repeatable; default: all.")
    ] = None,
    max_edits_per_image: Annotated[int, typer.Option(help="Edits planned for each picture.")] = 5,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            help="An edit of your own, such as 'husky=>schnauzer,poodle', '=>in the snow' or "
            "'in the rain=>'. Repeatable; with --max-edits-per-image 0 nothing else is edited."
        ),
    ] = None,
    lance_r_edits_per_image: Annotated[
        int, typer.Option(help="Edits of the random baseline for each picture; 0 leaves it out.")
    ] = 1,
    preset: Annotated[str, typer.Option(help="A preset of the suite: quick, lance, null-text.")] = "quick",
    selection: Annotated[
        str,
        typer.Option(
            help="Choice over the sweep: paper (best direction) or released (largest that passes; faster)."
        ),
    ] = "paper",
    limit: Annotated[int | None, typer.Option(help="At most so many pictures.")] = None,
    refuse_word: Annotated[
        list[str] | None,
        typer.Option(help="A word no edit may bring in, beside subjective ones. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A picture to leave out, such as cat/3.png. Repeatable.")
    ] = None,
    # A default in the shell only: a first try need not choose a seed, a program must.
    seed: Annotated[int, typer.Option(help="Equal seeds give equal answers.")] = 0,
    captions: Annotated[
        Path | None,
        typer.Option(
            help='Your captions of a folder\'s pictures, as lines {"file_name": ..., "caption": ...}; '
            "default: the captioner describes them."
        ),
    ] = None,
    report: Report = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    detach: Annotated[bool, typer.Option(help="Print the run's id and leave.")] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Stress-test classifiers on a dataset."""
    with connected(url) as client:
        # Checked whole before a folder is uploaded: a bad request must leave nothing behind.
        gate = _gate(max_drop, strict, report)
        brought = {} if captions is None else read_captions(captions)
        body = StressTestCreate(
            dataset=UNRESOLVED,
            classifiers=_classifier_commands.reachable(client, classifier, detach=detach),
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
        run = client.stress_tests.create(dataset=_dataset_name(client, dataset, brought), **settings)
        if detach:
            show(run.run, run.id, as_json)
            return
        ours = body.classifiers != classifier
        raise typer.Exit(_see_through(run, report, as_json, gate, ours=ours))


@app.command()
def apply(
    run_id: RunId,
    insight: Annotated[
        int, typer.Option(help="Which of the run's insights, counted as in its report, from 1.")
    ],
    seed: Annotated[int | None, typer.Option(help="Default: the run's seed plus one.")] = None,
    report: Report = None,
    detach: Annotated[bool, typer.Option(help="Print the new run's id and leave.")] = False,
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
        raise typer.Exit(_see_through(run, report, as_json, None))


@app.command()
def wait(
    run_id: RunId,
    report: Report = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Wait for a run and print its summary."""
    with connected(url) as client:
        gate = _gate(max_drop, strict, report)
        raise typer.Exit(_see_through(client.stress_tests.get(run_id), report, as_json, gate))


@app.command()
def cancel(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a run; what is finished is kept."""
    with connected(url) as client:
        run = client.stress_tests.get(run_id).cancel().run
        show(run, run.state, as_json)


@app.command()
def resume(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Take the failed and cancelled items of a run up again."""
    with connected(url) as client:
        run = client.stress_tests.get(run_id).resume().run
        show(run, run.state, as_json)


@app.command()
def runs(as_json: AsJson = False, url: Url = None) -> None:
    """List the runs, newest first."""
    with connected(url) as client:
        show_runs(list(client.stress_tests.list()), as_json)


@app.command()
def datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = client.datasets.list()
    lines = [f"{d.name}  {d.n_sources} pictures, {len(d.classes)} classes" for d in found.datasets]
    show(found, "\n".join(lines), as_json)


app.add_typer(_classifier_commands.app, name="classifiers")


@app.command()
def services(as_json: AsJson = False, url: Url = None) -> None:
    """Say which services are ready."""
    with connected(url) as client:
        found = client.services.list()
    lines = [f"{s.service:12} {'ready' if s.ready else 'not ready ' + s.detail}" for s in found.services]
    show(found, "\n".join(lines), as_json)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception:
        # An error of ours must not end in 1, which says that a gate has failed.
        sys.excepthook(*sys.exc_info())
        raise SystemExit(Exit.INCOMPLETE) from None
