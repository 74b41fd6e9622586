"""Pairs by an editor of the user's own: a Python function or an address that changes one image at a time.

A function runs in a process of its own, which is ended where an image takes too long.
"""

from __future__ import annotations

import base64
import csv
import importlib
import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose._datasets.folders import ImageFile, images_in
from counterpose._datasets.pairs import COLUMNS
from counterpose._datasets.pixels import encoded
from counterpose._datasets.uploads import LARGEST_IMAGE
from counterpose._python_function.function import PREFIX, function_of
from counterpose._python_function.probabilities import message
from counterpose_core.errors import InvalidRequest
from counterpose_processes.pool import Pool

TABLE = "pairs.csv"
SECONDS = 60.0
IMPORT_SECONDS = 600.0
NAMED = 5
MOST_FAULTS = 5
"""Images in a row from the first on that fail before an editor is given up."""
IMPORTED = -1
"""The level of a task that only imports the function."""
NO_CONTROL = "it makes no control"

Task = tuple[str, bytes, str | None, int, int]
"""The function, the file of an image, the change, its level and the seed."""


class EditFailed(Exception):
    """The editor made no image; the text says why, as of "it"."""


@dataclass
class MadePairs:
    """Images that an editor made, and the table that names them; ``left_out`` names the others by reason."""

    table: Path
    images: int = 0
    controls: bool = True
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        controls = "with a control of each source" if self.controls else "without controls"
        lines = [f"{self.images} images, {controls}: {self.table}"]
        for why, names in self.left_out.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            lines.append(f"not made, {len(names)}: {why} ({', '.join(names[:NAMED])}{more})")
        return "\n".join(lines)


def make_pairs(
    folder: str | Path,
    *,
    editor: str,
    changes: Mapping[str, Sequence[int]],
    out: str | Path,
    seed: int = 0,
    seconds: float = SECONDS,
    limit: int | None = None,
) -> MadePairs:
    """Let an editor of your own change each image of a folder, and write a table of the pairs.

    Its signature is ``edit(image, change, level, seed)``: the image is uint8 (height, width, 3), and what it
    returns an array, a PIL image or a tensor of the same size. With the change None it returns the control,
    made in its way with nothing changed, or raises NotImplementedError where it cannot. An address gets the
    same by POST as JSON, the image as a file in base64, and answers with a file, or 501 for no control.

    Args:
        folder: the images, as `client.datasets.upload` takes them.
        editor: ``py:module:function``, or ``http://`` or ``https://`` and so on.
        changes: the levels of each change, by what it is called.
        out: a new folder, beside that of the images.
        seed: given to the editor.
        seconds: that it has for an image.
        limit: number of images, the first of the folder; default: all.

    Raises:
        DatasetEmpty: there are no images.
        InvalidRequest: the folder ``out`` has files, the editor cannot be used, or it fails on the first
            images.
    """
    images, place = list(images_in(folder))[:limit], Path(out)
    if place.exists() and any(place.iterdir()):
        raise InvalidRequest(f"the folder {str(out)!r} has files already; name a new one")
    made, rows = MadePairs(place / TABLE), list[Sequence[object]]()
    with _opened(editor, seconds) as edit:
        for image in images:
            rows += _pairs_of(image, edit, changes, place, seed, made)
            faults = sum(map(len, made.left_out.values()))
            if not made.images and faults >= MOST_FAULTS:
                why, names = next(iter(made.left_out.items()))
                raise InvalidRequest(f"{editor!r} fails on the first images: {why} ({names[0]})")
    place.mkdir(parents=True, exist_ok=True)
    with made.table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return made


def _pairs_of(
    image: ImageFile,
    edit: _Editor,
    changes: Mapping[str, Sequence[int]],
    out: Path,
    seed: int,
    made: MadePairs,
) -> Iterator[Sequence[object]]:
    control = ""
    content = image.content() or b""
    wanted = [(change, level) for change, levels in changes.items() for level in levels]
    asked: list[tuple[str | None, int]] = [*([(None, 0)] if made.controls else []), *wanted]
    for change, level in asked:
        place = "controls" if change is None else f"change-{list(changes).index(change) + 1}-level-{level}"
        name = f"{place}/{image.name}.png"
        try:
            data = edit.made(content, change, level, seed)
        except EditFailed as error:
            if str(error) == NO_CONTROL:
                made.controls = False
            else:
                made.left_out[str(error)].append(name)
            continue
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
        made.images += 1
        if change is None:
            control = name
        else:
            yield image.name, name, change, level, control


class _Editor(ABC):
    """Makes one image at a time, in so many seconds at most."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @abstractmethod
    def made(self, content: bytes, change: str | None, level: int, seed: int) -> bytes:
        """Return the file of what is made of an image; raises `EditFailed`."""

    @property
    def late(self) -> EditFailed:
        return EditFailed(f"it took more than {self.seconds:g} s")


@contextmanager
def _opened(editor: str, seconds: float) -> Iterator[_Editor]:
    if editor.startswith(("http://", "https://")):
        with httpx.Client(timeout=seconds) as client:
            yield _Address(editor, seconds, client)
        return
    if not editor.startswith(PREFIX):
        raise InvalidRequest(f"{editor!r} is no editor: expected py:module:function, or an address")
    pool = Pool(1, _done, lambda: EditFailed("its process ended"))
    try:
        yield _Function(editor, seconds, pool)
    finally:
        pool.close()


class _Function(_Editor):
    """A function in a process of its own.

    Raises:
        InvalidRequest: it cannot be imported.
    """

    def __init__(self, spec: str, seconds: float, pool: Pool) -> None:
        super().__init__(seconds)
        self._spec, self._pool = spec, pool
        self._is_ready = False
        self._ready()

    def _ready(self) -> None:
        """Have a new process import the module, which may load a network as it is imported."""
        if not self._is_ready:
            fault = self._pool.start((self._spec, b"", None, IMPORTED, 0)).result(IMPORT_SECONDS)
            if fault:
                raise InvalidRequest(str(fault))
        self._is_ready = True

    def made(self, content: bytes, change: str | None, level: int, seed: int) -> bytes:
        """Return the file of what is made of an image; raises `EditFailed`."""
        self._ready()
        work = self._pool.start((self._spec, content, change, level, seed))
        try:
            found = work.result(self.seconds)
        except (TooLate, EditFailed) as error:
            self._is_ready = False
            work.give_up()
            raise (self.late if isinstance(error, TooLate) else error) from None
        if isinstance(found, str):
            raise EditFailed(found)
        return bytes(found)


def _done(task: Task) -> bytes | str:
    """Make one image in the function's process; return its file, or what is wrong, as text."""
    spec, content, change, level, seed = task
    try:
        function = function_of(spec)[0]
    except InvalidRequest as error:
        return error.detail
    if level == IMPORTED:
        # What opens and writes images loads here too, not in the time of the first image.
        _pixels(encoded(importlib.import_module("numpy").zeros((1, 1, 3), "uint8"), "a blank image"))
        return ""
    try:
        return encoded(function(_pixels(content), change, level, seed), "what it returned")
    except NotImplementedError as error:
        return NO_CONTROL if change is None else f"it raised {message(error)}"
    except InvalidRequest as error:
        return error.detail
    # Everything: whatever the user's code raises, the next image must be made.
    except (Exception, SystemExit) as error:
        return f"it raised {message(error)}"


def _pixels(content: bytes) -> Any:
    opened = importlib.import_module("PIL.Image").open(io.BytesIO(content))
    upright = importlib.import_module("PIL.ImageOps").exif_transpose(opened).convert("RGB")
    return importlib.import_module("numpy").array(upright)


class _Address(_Editor):
    """An editor behind an address."""

    def __init__(self, address: str, seconds: float, client: httpx.Client) -> None:
        super().__init__(seconds)
        self._address, self._client = address, client

    def made(self, content: bytes, change: str | None, level: int, seed: int) -> bytes:
        """Return the file of what is made of an image; raises `EditFailed`."""
        asked: dict[str, Any] = {"change": change, "level": level, "seed": seed}
        asked["image"] = base64.b64encode(content).decode("ascii")
        try:
            answer = self._client.post(self._address, json=asked)
        except httpx.TimeoutException:
            raise self.late from None
        except httpx.HTTPError as error:
            raise EditFailed(f"it cannot be reached: {message(error)}") from error
        if answer.status_code == httpx.codes.NOT_IMPLEMENTED and change is None:
            raise EditFailed(NO_CONTROL)
        if answer.status_code != httpx.codes.OK:
            raise EditFailed(f"it answered with the status {answer.status_code}")
        if not 0 < len(answer.content) <= LARGEST_IMAGE:
            raise EditFailed(f"it answered with no file of at most {LARGEST_IMAGE} bytes")
        return answer.content
