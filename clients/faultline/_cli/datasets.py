"""``faultline datasets``, and a dataset as other commands take one: a name, or a folder to upload first."""

from __future__ import annotations

import os
from pathlib import Path

from faultline._cli.options import AsJson, Url
from faultline._cli.tables import Table
from faultline._cli.terminal import connected, print_note, show
from faultline._client import Client
from faultline._folders import folder_digest, images_in
from faultline_core.errors import InvalidRequest

UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""


def datasets(as_json: AsJson = False, url: Url = None) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = client.datasets.list()
        rows = [
            (dataset.name, str(dataset.n_sources), str(len(dataset.classes))) for dataset in found.datasets
        ]
        show(found, str(Table(("dataset", "images", "classes"), rows)), as_json)


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
        for rejected in client.datasets.upload(folder, name=name, captions=captions).rejected:
            print_note(f"skipped {rejected.filename}: {rejected.code}: {rejected.detail}")
    return name
