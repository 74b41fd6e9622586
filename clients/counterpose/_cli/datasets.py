"""``counterpose datasets``, and a dataset as other commands take one: a name, or a folder to upload first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from counterpose._cli.dataset_import import cancel_import, import_dataset
from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, Captions, Names, Url
from counterpose._cli.steps import going_on
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, print_note, print_result, show
from counterpose._datasets.folders import folder_digest, images_in, read_captions
from counterpose._datasets.imports import describe_import
from counterpose._datasets.pairs import PairFile, pairs_digest, pairs_in
from counterpose._datasets.uploads import Uploaded
from counterpose._sync.client import Client
from counterpose_core.contract.base import RequestBody
from counterpose_core.contract.datasets import Dataset
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.folder_names import notes_on_names, read_names

UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""


Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder with one subfolder of images per class.")
]
NewName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The dataset's name; default: the folder's, with a digest."),
]
Days = Annotated[float, typer.Option("--days", metavar="DAYS", min=0, help="Days from now; 0 for no end.")]
Expires = Annotated[
    float | None, typer.Option("--expires", metavar="DAYS", help="Delete the dataset after so many days.")
]
DAY = 86_400.0
DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")]

app = group("List, add, import and show datasets.")


@app.command("list")
def list_datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = client.datasets.list()
        rows = [
            (dataset.name, str(dataset.n_sources), str(len(dataset.classes))) for dataset in found.datasets
        ]
        show(found, str(Table(("dataset", "images", "classes"), rows)), as_json)


@app.command(epilog=examples("counterpose datasets add photos/ --name photos"))
def add(
    folder: Folder,
    name: NewName = None,
    captions: Captions = None,
    names: Names = None,
    expires: Expires = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Upload a folder of labelled images."""
    with connected(url) as client:
        own = own_texts(captions, names)
        if name is None:
            name = dataset_name(client, f"{folder}{os.sep}", own)
        else:
            _upload(client, folder, name, own)
        if expires is not None:
            client.datasets.expire(name, expires * DAY)
        dataset = client.datasets.get(name)
        show(dataset, _described(dataset), as_json)


@app.command("show", epilog=examples("counterpose datasets show demo"))
def show_dataset(name: DatasetName, as_json: AsJson = False, url: Url = None) -> None:
    """Show a dataset's size, digest and classes."""
    with connected(url) as client:
        dataset = client.datasets.get(name)
        show(dataset, _described(dataset), as_json)


@app.command(epilog=examples("counterpose datasets expire photos --days 30"))
def expire(name: DatasetName, days: Days, as_json: AsJson = False, url: Url = None) -> None:
    """Let a dataset be deleted after some days, or never."""
    with connected(url) as client:
        dataset = client.datasets.expire(name, days * DAY if days else None)
        show(dataset, _described(dataset), as_json)


@app.command(epilog=examples("counterpose datasets delete photos"))
def delete(name: DatasetName, as_json: AsJson = False, url: Url = None) -> None:
    """Delete a dataset; its images go within hours, unless a run or another dataset has them."""
    with connected(url) as client:
        client.datasets.delete(name)
        print_result(json.dumps({"deleted": name}) if as_json else f"deleted dataset {name}")


app.command(
    "import", epilog=examples("counterpose datasets import photos 's3://bucket/shard-{000000..000099}.tar'")
)(import_dataset)


app.command("cancel-import", epilog=examples("counterpose datasets cancel-import photos"))(cancel_import)


def _described(dataset: Dataset) -> str:
    lines = [
        f"{dataset.name}: {dataset.n_sources} images in {len(dataset.classes)} classes",
        f"created {dataset.created_at:%Y-%m-%d %H:%M} UTC, digest {dataset.digest or 'not known yet'}",
        f"classes: {', '.join(dataset.classes)}",
    ]
    if dataset.expires_at is not None:
        lines.append(f"deleted at {dataset.expires_at:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines if dataset.imported is None else [*lines, describe_import(dataset)])


def settings_of(body: RequestBody) -> dict[str, Any]:
    """Return what a checked request sets, without the dataset, which is uploaded only now."""
    return {name: getattr(body, name) for name in body.model_fields_set - {"dataset"}}


@dataclass(frozen=True)
class OwnTexts:
    """Captions by image and class names by subfolder; no names leave them to the folder's ``names.json``."""

    captions: Mapping[str, str]
    names: Mapping[str, str] | None

    def __bool__(self) -> bool:
        return bool(self.captions or self.names)


NO_TEXTS = OwnTexts({}, None)


def own_texts(captions: Path | None, names: Path | None) -> OwnTexts:
    """Read the files of captions and of names that come with a folder, before it is uploaded."""
    return OwnTexts(
        {} if captions is None else read_captions(captions), None if names is None else read_names(names)
    )


def require_images(dataset: str, own: OwnTexts = NO_TEXTS) -> None:
    """Refuse a path that is no folder.

    Raises:
        InvalidRequest: ``dataset`` is a path or a file, or has captions or names, but is not a folder.
    """
    if not Path(dataset).is_dir() and (own or os.sep in dataset or Path(dataset).is_file()):
        raise InvalidRequest(f"{dataset!r} is not a folder")


def dataset_name(client: Client, dataset: str, own: OwnTexts = NO_TEXTS) -> str:
    """Return the dataset's name; a folder is uploaded first, under a name derived from its content.

    A dataset known to the gateway takes precedence over a folder of the same name, unless captions or names
    are given.

    Raises:
        InvalidRequest: ``dataset`` is a path, or has captions or names, but is not a folder.
        DatasetEmpty: the folder holds no images.
    """
    folder = Path(dataset)
    require_images(dataset, own)
    if not folder.is_dir():
        return dataset
    known = {each.name for each in client.datasets.list().datasets if each.n_sources}
    if dataset in known and not own:
        return dataset
    # The name holds a digest: a changed folder becomes a new dataset, an unchanged one is not sent again.
    name = f"{_stem(folder.resolve().name)}-{folder_digest(images_in(folder, own.captions, names=own.names))}"
    if name not in known:
        _upload(client, folder, name, own)
    return name


def pairs_name(client: Client, table: str, dataset: str, own: OwnTexts = NO_TEXTS) -> str:
    """Return the name of the dataset of a table of pairs, which is uploaded first, named by its content.

    Raises:
        InvalidRequest: ``dataset`` is no folder, or a line of the table is refused.
    """
    images = pairs_of_table(table, dataset, own)
    known = {each.name for each in client.datasets.list().datasets if each.n_sources}
    name = f"{_stem(Path(table).stem)}-pairs-{pairs_digest(images)}"
    if name not in known:
        with going_on(f"uploading the {len(images)} images of {table}"):
            done = client.datasets.upload_pairs(table, of=dataset, name=name, names=own.names)
        _note(done)
    return name


def pairs_of_table(table: str, dataset: str, own: OwnTexts) -> list[PairFile]:
    """Read a table of pairs.

    Raises:
        InvalidRequest: there is no such file, ``dataset`` is no folder, or a line of the table is refused.
    """
    if not Path(table).is_file():
        raise InvalidRequest(f"there is no table {table!r}")
    if not Path(dataset).is_dir():
        raise InvalidRequest(
            f"the pairs of {table!r} are of the images of a folder, and {dataset!r} is none; name it, or "
            "upload the pairs and name their dataset"
        )
    return pairs_in(table, dataset, own.names)


def _stem(name: str) -> str:
    letters = (c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return ("".join(letters).strip("._-") or "images")[:64]


def _upload(client: Client, folder: Path, name: str, own: OwnTexts) -> None:
    with going_on(f"uploading the images of {folder}"):
        done = client.datasets.upload(folder, name=name, captions=own.captions, names=own.names)
    _note(done)


def _note(done: Uploaded) -> None:
    for note in notes_on_names(done.names):
        print_note(note)
    for rejected in done.rejected:
        print_note(f"skipped {rejected.filename}: {rejected.code}: {rejected.detail}")
