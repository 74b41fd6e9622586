"""A dataset as a command is given one: a name that the gateway knows, or a folder that is uploaded first."""

from __future__ import annotations

import os
from pathlib import Path

from faultline._client import Client
from faultline._folders import folder_digest, pictures_in
from faultline._terminal import complain
from faultline_core.errors import InvalidRequest

UNRESOLVED = "unresolved"
"""Stands for the dataset while the rest of a request is checked."""


def dataset_name(client: Client, dataset: str, captions: dict[str, str]) -> str:
    """The dataset's name; a folder is uploaded first, under a name made from its content.

    A dataset that the gateway knows goes before a folder of the same name, unless captions come along.

    Raises:
        InvalidRequest: it is a path, or has captions, and is no folder.
        DatasetEmpty: there is no picture in the folder.
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
