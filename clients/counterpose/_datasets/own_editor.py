"""Pairs by an editor of the user's own: a Python function or an address that changes one image at a time.

Both work in a process of their own, which is ended where an image takes too long.
"""

from __future__ import annotations

import base64
import csv
import importlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from counterpose._datasets.folders import ImageFile, images_in
from counterpose._datasets.pairs import COLUMNS
from counterpose._datasets.pixels import encoded
from counterpose._datasets.uploads import LARGEST_IMAGE
from counterpose._python_function.function import PREFIX, function_of
from counterpose._python_function.probabilities import message
from counterpose_core.contract.datasets import LONGEST_REASON
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
_ODD = re.compile(r"[^\w .,:;'%()/+-]+")
"""What a table has no use for: an error may say anything."""
SCHEMES = ("http://", "https://")

Task = tuple[str, bytes, str | None, int, int]
"""The function, the file of an image, the change, its level and the seed."""


class EditFailed(Exception):
    """The editor made no image; the text says why, as of "it"."""


@dataclass
class PairTable:
    """The table of the images that an editor made; ``left_out`` names the others by reason."""

    path: Path
    images: int = 0
    controls: bool = True
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        controls = "with a control of each source" if self.controls else "without controls"
        lines = [f"{self.images} images, {controls}: {self.path}"]
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
    tell: Callable[[int, int], None] | None = None,
) -> PairTable:
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
        tell: called with how many images of how many are edited.

    Raises:
        DatasetEmpty: there are no images.
        InvalidRequest: the folder ``out`` has files, the editor cannot be used, or it fails on the first
            images.
    """
    images, place = list(images_in(folder))[:limit], Path(out)
    if place.exists() and any(place.iterdir()):
        raise InvalidRequest(f"the folder {str(out)!r} has files already; name a new one")
    table, rows = PairTable(place / TABLE), list[Sequence[object]]()
    with _opened(editor, seconds) as opened:
        for done, image in enumerate(images):
            if tell is not None and done:
                tell(done, len(images))
            rows += _pairs_of(image, opened, changes, place, seed, table)
            faults = sum(map(len, table.left_out.values()))
            if not table.images and faults >= MOST_FAULTS:
                why, names = next(iter(table.left_out.items()))
                raise InvalidRequest(f"{editor!r} fails on the first images: {why} ({names[0]})")
    place.mkdir(parents=True, exist_ok=True)
    with table.path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return table


def _pairs_of(
    image: ImageFile,
    editor: _Editor,
    changes: Mapping[str, Sequence[int]],
    out: Path,
    seed: int,
    table: PairTable,
) -> Iterator[Sequence[object]]:
    control = ""
    content = image.content() or b""
    wanted = [(change, level) for change, levels in changes.items() for level in levels]
    asked: list[tuple[str | None, int]] = [*([(None, 0)] if table.controls else []), *wanted]
    for change, level in asked:
        place = "controls" if change is None else f"change-{list(changes).index(change) + 1}-level-{level}"
        name = f"{place}/{image.name}.png"
        try:
            data = editor.image(content, change, level, seed)
        except EditFailed as error:
            if str(error) == NO_CONTROL:
                table.controls = False
            else:
                table.left_out[str(error)].append(name)
                why = _ODD.sub(" ", str(error))[:LONGEST_REASON]
                yield image.name, name, change or "", level or "", "", why
            continue
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
        table.images += 1
        if change is None:
            control = name
        else:
            yield image.name, name, change, level, control, ""


@contextmanager
def _opened(editor: str, seconds: float) -> Iterator[_Editor]:
    if not editor.startswith((PREFIX, *SCHEMES)):
        raise InvalidRequest(f"{editor!r} is no editor: expected py:module:function, or an address")
    pool = Pool(1, _image, lambda: EditFailed("its process ended"))
    try:
        yield _Editor(editor, seconds, pool)
    finally:
        pool.close()


class _Editor:
    """A function, or the calls of an address, in a process of its own: one image at a time.

    Raises:
        InvalidRequest: the function cannot be imported.
    """

    def __init__(self, spec: str, seconds: float, pool: Pool) -> None:
        self._spec, self._seconds, self._pool = spec, seconds, pool
        self._is_ready = False
        self._ready()

    def _ready(self) -> None:
        """Have a new process import the module, which may load a network as it is imported."""
        if not self._is_ready:
            fault = self._pool.start((self._spec, b"", None, IMPORTED, 0)).result(IMPORT_SECONDS)
            if fault:
                raise InvalidRequest(str(fault))
        self._is_ready = True

    def image(self, content: bytes, change: str | None, level: int, seed: int) -> bytes:
        """Return the file of what is made of an image; raises `EditFailed`."""
        self._ready()
        work = self._pool.start((self._spec, content, change, level, seed))
        try:
            found = work.result(self._seconds)
        except (TooLate, EditFailed) as error:
            self._is_ready = False
            work.give_up()
            if isinstance(error, TooLate):
                raise EditFailed(f"it took more than {self._seconds:g} s") from None
            raise
        if isinstance(found, str):
            raise EditFailed(found)
        return bytes(found)


def _image(task: Task) -> bytes | str:
    """Make one image in the editor's process; return its file, or what is wrong, as text."""
    spec, content, change, level, seed = task
    if spec.startswith(SCHEMES):
        return _answer(task) if _client() and level != IMPORTED else ""
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


@cache
def _client() -> httpx.Client:
    # httpx times each read alone; the process is ended where an answer takes too long as a whole.
    return httpx.Client(trust_env=False, timeout=None)


def _answer(task: Task) -> bytes | str:
    """Post one image to an address; return the file that it answers with, or what is wrong, as text.

    The host that was named is called and no other: no redirect is followed, and no proxy of the environment
    sees the image. Of an answer that is too large, no more is read.
    """
    spec, content, change, level, seed = task
    image, data = base64.b64encode(content).decode("ascii"), bytearray()
    asked = {"image": image, "change": change, "level": level, "seed": seed}
    try:
        with _client().stream("POST", spec, json=asked) as answer:
            if answer.status_code == httpx.codes.NOT_IMPLEMENTED and change is None:
                return NO_CONTROL
            if answer.is_redirect:
                return f"it redirects to {answer.headers['location'][:200]!r}; redirects are not followed"
            if answer.status_code != httpx.codes.OK:
                return f"it answered with the status {answer.status_code}"
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > LARGEST_IMAGE:
                    break
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"it cannot be reached: {message(error)}"
    if not 0 < len(data) <= LARGEST_IMAGE:
        return f"it answered with no file of at most {LARGEST_IMAGE} bytes"
    return bytes(data)
