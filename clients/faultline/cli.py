"""``faultline``: the SDK's verbs from a shell."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import BaseModel, ValidationError

from faultline._client import Client
from faultline._gate import Exit, Gate, exit_for_error, exit_for_state
from faultline._progress import follow
from faultline._runs import StressTest
from faultline.resources.datasets import picture_files
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import FaultlineError, UnknownEditType
from faultline_core.types import EDIT_TYPES, EditType, Selection

app = typer.Typer(help="Find where an image classifier breaks.", no_args_is_help=True, add_completion=False)

Url = Annotated[str | None, typer.Option("--url", envvar="FAULTLINE_URL", help="The gateway.")]
UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
RunId = Annotated[str, typer.Argument(help="The run's id.")]


def _say(text: str) -> None:
    print(text)


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _show(body: BaseModel, text: str, as_json: bool) -> None:
    _say(body.model_dump_json(indent=2, by_alias=True) if as_json else text)


@contextmanager
def _client(url: str | None) -> Iterator[Client]:
    """Open a client; errors become one line and an exit code."""
    try:
        with Client(url) as client:
            yield client
    except FaultlineError as error:
        _complain(f"{error.code}: {error.detail}")
        raise typer.Exit(exit_for_error(error)) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        _complain(f"invalid-request: {problems}")
        raise typer.Exit(Exit.USAGE) from error


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for label, path in picture_files(folder):
        digest.update(f"{label}/{path.name}/{path.stat().st_size}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _dataset_name(client: Client, dataset: str) -> str:
    """The dataset's name; a folder is uploaded first, under a name made from its content.

    A dataset that the gateway knows goes before a folder of the same name.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        return dataset
    known = {each.name for each in client.datasets.list().datasets if each.n_sources}
    if dataset in known:
        return dataset
    stem = (
        "".join(c if c.isalnum() or c in "._-" else "-" for c in folder.resolve().name).strip("._-")
        or "images"
    )
    name = f"{stem[:64]}-{_folder_digest(folder)}"
    if name not in known:
        added = client.datasets.upload(folder, name=name)
        for rejected in added.rejected:
            _complain(f"left out {rejected.filename}: {rejected.code}: {rejected.detail}")
    return name


def _edit_types(names: list[str]) -> list[EditType]:
    for name in names:
        if name not in EDIT_TYPES:
            raise UnknownEditType(f"no edit type is named {name!r}; there are {', '.join(EDIT_TYPES)}")
    return cast("list[EditType]", names)


def _finish(run: StressTest, report: Path | None, as_json: bool, gate: Gate | None) -> Exit:
    summary = run.summary()
    if report is not None:
        report.write_text(run.report(), encoding="utf-8")
        _complain(f"report written to {report}")
    _show(summary, str(summary), as_json)
    ended = exit_for_state(run.run.state)
    if ended is not Exit.PASSED or gate is None:
        return ended
    return gate.verdict(summary)


@app.command("stress-test")
def stress_test(
    dataset: Annotated[str, typer.Option(help="A dataset's name, or a folder with one folder a class.")],
    classifier: Annotated[list[str], typer.Option(help="A classifier, such as timm:resnet50. Repeatable.")],
    edit_type: Annotated[
        list[str] | None, typer.Option(help="An edit type. Repeatable; default: all.")
    ] = None,
    max_edits_per_image: Annotated[int, typer.Option(help="Edits planned for each picture.")] = 5,
    preset: Annotated[str, typer.Option(help="A preset of the suite: quick or lance.")] = "quick",
    selection: Annotated[str, typer.Option(help="Choice over the sweep: paper or released.")] = "paper",
    limit: Annotated[int | None, typer.Option(help="At most so many pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal answers.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write the HTML report there.")] = None,
    max_drop: Annotated[float | None, typer.Option(help="Gate: fail above this accuracy drop.")] = None,
    strict: Annotated[bool, typer.Option(help="Gate: count inconclusive as failed.")] = False,
    detach: Annotated[bool, typer.Option(help="Print the run's id and leave.")] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Stress-test classifiers on a dataset."""
    gate = None if max_drop is None else Gate(max_drop, strict)
    with _client(url) as client:
        # Checked whole before a folder is uploaded: a bad request must leave nothing behind.
        body = StressTestCreate(
            dataset=UNRESOLVED,
            classifiers=classifier,
            edit_types=_edit_types(list(edit_type or EDIT_TYPES)),
            max_edits_per_image=max_edits_per_image,
            preset=preset,
            selection=cast("Selection", selection),
            limit=limit,
            seed=seed,
        )
        settings = {name: getattr(body, name) for name in body.model_fields_set - {"dataset"}}
        run = client.stress_tests.create(dataset=_dataset_name(client, dataset), **settings)
        if detach:
            _show(run.run, run.id, as_json)
            return
        try:
            follow(run, quiet=as_json)
        except KeyboardInterrupt as interrupt:
            _complain(f"interrupted; the run goes on: faultline wait {run.id}")
            raise typer.Exit(Exit.INTERRUPTED) from interrupt
        raise typer.Exit(_finish(run, report, as_json, gate))


@app.command()
def wait(
    run_id: RunId,
    report: Annotated[Path | None, typer.Option()] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Wait for a run and print its summary."""
    with _client(url) as client:
        run = follow(client.stress_tests.get(run_id), quiet=as_json)
        raise typer.Exit(_finish(run, report, as_json, None))


@app.command()
def cancel(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a run; what is finished is kept."""
    with _client(url) as client:
        run = client.stress_tests.get(run_id).cancel().run
        _show(run, run.state, as_json)


@app.command()
def resume(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Take the failed and cancelled items of a run up again."""
    with _client(url) as client:
        run = client.stress_tests.get(run_id).resume().run
        _show(run, run.state, as_json)


@app.command()
def runs(as_json: AsJson = False, url: Url = None) -> None:
    """List the runs, newest first."""
    with _client(url) as client:
        found: list[dict[str, Any]] = [run.model_dump(mode="json") for run in client.stress_tests.list()]
    if as_json:
        _say(json.dumps(found, indent=2))
        return
    for run in found:
        _say(f"{run['id']}  {run['state']:24} {run['dataset']}")


@app.command()
def datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with _client(url) as client:
        found = client.datasets.list()
    _show(
        found,
        "\n".join(f"{d.name}  {d.n_sources} pictures, {len(d.classes)} classes" for d in found.datasets),
        as_json,
    )


@app.command()
def classifiers(as_json: AsJson = False, url: Url = None) -> None:
    """List the classifiers that can be tested."""
    with _client(url) as client:
        found = client.classifiers.list()
    _show(found, "\n".join(f"{c.spec}  {c.architecture}" for c in found.classifiers), as_json)


@app.command()
def services(as_json: AsJson = False, url: Url = None) -> None:
    """Say which services are ready."""
    with _client(url) as client:
        found = client.services.list()
    lines = [f"{s.service:12} {'ready' if s.ready else 'not ready ' + s.detail}" for s in found.services]
    _show(found, "\n".join(lines), as_json)


def main() -> None:
    """Run the command line."""
    app()
