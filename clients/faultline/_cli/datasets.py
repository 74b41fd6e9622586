"""``faultline datasets``, and a dataset as other commands take one: a name, or a folder to upload first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from faultline._cli.groups import examples, group
from faultline._cli.options import AsJson, Captions, Url
from faultline._cli.tables import Table
from faultline._cli.terminal import connected, print_note, show
from faultline._client import Client
from faultline._datasets.folders import folder_digest, images_in, read_captions
from faultline_core.contract.base import RequestBody
from faultline_core.contract.datasets import Dataset
from faultline_core.errors import InvalidRequest

UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""


Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder with one subfolder of images per class.")
]
NewName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The dataset's name; default: the folder's, with a digest."),
]
DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")]

app = group("List, add and show datasets.")


@app.command("list")
def list_datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = client.datasets.list()
        rows = [
            (dataset.name, str(dataset.n_sources), str(len(dataset.classes))) for dataset in found.datasets
        ]
        show(found, str(Table(("dataset", "images", "classes"), rows)), as_json)


@app.command(epilog=examples("faultline datasets add photos/ --name photos"))
def add(
    folder: Folder,
    name: NewName = None,
    captions: Captions = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Upload a folder of labelled images."""
    with connected(url) as client:
        own_captions = {} if captions is None else read_captions(captions)
        if name is None:
            name = dataset_name(client, f"{folder}{os.sep}", own_captions)
        else:
            _upload(client, folder, name, own_captions)
        dataset = client.datasets.get(name)
        show(dataset, _described(dataset), as_json)


@app.command("show", epilog=examples("faultline datasets show demo"))
def show_dataset(name: DatasetName, as_json: AsJson = False, url: Url = None) -> None:
    """Show a dataset's size, digest and classes."""
    with connected(url) as client:
        dataset = client.datasets.get(name)
        show(dataset, _described(dataset), as_json)


def _described(dataset: Dataset) -> str:
    return "\n".join(
        [
            f"{dataset.name}: {dataset.n_sources} images in {len(dataset.classes)} classes",
            f"created {dataset.created_at:%Y-%m-%d %H:%M} UTC, digest {dataset.digest}",
            f"classes: {', '.join(dataset.classes)}",
        ]
    )


def settings_of(body: RequestBody) -> dict[str, Any]:
    """Return what a checked request sets, without the dataset, which is uploaded only now."""
    return {name: getattr(body, name) for name in body.model_fields_set - {"dataset"}}


def dataset_name(client: Client, dataset: str, captions: dict[str, str]) -> str:
    """Return the dataset's name; a folder is uploaded first, under a name derived from its content.

    A dataset known to the gateway takes precedence over a folder of the same name, unless captions are given.

    Raises:
        InvalidRequest: ``dataset`` is a path, or has captions, but is not a folder.
        DatasetEmpty: the folder holds no images.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        if captions or os.sep in dataset:
            raise InvalidRequest(f"{dataset!r} is not a folder")
        return dataset
    known = {each.name for each in client.datasets.list().datasets if each.n_sources}
    if dataset in known and not captions:
        return dataset
    letters = (c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in folder.resolve().name)
    stem = "".join(letters).strip("._-") or "images"
    # The name holds a digest: a changed folder becomes a new dataset, an unchanged one is not sent again.
    name = f"{stem[:64]}-{folder_digest(images_in(folder, captions))}"
    if name not in known:
        _upload(client, folder, name, captions)
    return name


def _upload(client: Client, folder: Path, name: str, captions: dict[str, str]) -> None:
    for rejected in client.datasets.upload(folder, name=name, captions=captions).rejected:
        print_note(f"skipped {rejected.filename}: {rejected.code}: {rejected.detail}")
