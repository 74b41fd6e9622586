"""An editor of the user's own: what it makes, and what becomes of an image that it does not make."""

from __future__ import annotations

import base64
import csv
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from counterpose import make_pairs
from counterpose._datasets import own_editor
from counterpose._datasets.pairs import pairs_in
from counterpose_core.errors import InvalidRequest
from fakes.command import run

MODULE = """
import os, time
import numpy as np

def darker(image, change, level, seed):
    return image if change is None else (image * (1.0 - 0.2 * level)).astype(np.uint8)

def alone(image, change, level, seed):
    if change is None:
        raise NotImplementedError
    return image / 510.0

def odd(image, change, level, seed):
    shade = int(image[0, 0, 0])
    if change is None or shade == 0:
        return image
    if shade == 1:
        return image * np.nan
    if shade == 2:
        raise ValueError("no such fog")
    if shade == 3:
        return "fog"
    if shade == 4:
        os._exit(3)
    time.sleep(600.0)

def broken(image, change, level, seed):
    raise ValueError("no network")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images that differ by their shade, and a module of editors."""
    (tmp_path / "fogs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "photographs/cat").mkdir(parents=True)
    for shade in range(6):
        Image.new("RGB", (8, 8), (shade, 100, 100)).save(tmp_path / f"photographs/cat/{shade}.png")
    return tmp_path


def table_by(folder: Path, function: str, limit: int | None = 2, **changes: Any) -> own_editor.PairTable:
    asked = {"changes": {"dark": [1, 2]}} | changes
    editor = f"py:fogs:{function}"
    return make_pairs(folder / "photographs", editor=editor, out=folder / "made", limit=limit, **asked)


def test_a_function_makes_each_level_and_a_control_that_the_table_names(folder: Path) -> None:
    told = list[tuple[int, int]]()
    table = table_by(folder, "darker", tell=lambda done, of: told.append((done, of)))
    assert (table.images, table.controls, table.left_out) == (6, True, {})
    assert told == [(1, 2)], "of two images one is edited before the last begins"
    with table.path.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["source"], row["change"], row["level"]) for row in rows] == [
        ("cat/0.png", "dark", "1"), ("cat/0.png", "dark", "2"),
        ("cat/1.png", "dark", "1"), ("cat/1.png", "dark", "2"),
    ]  # fmt: skip
    pixels = np.asarray(Image.open(folder / "made" / rows[1]["counterfactual"]))
    assert (pixels == (0, 60, 60)).all()
    assert (np.asarray(Image.open(folder / "made" / rows[1]["control"])) == (0, 100, 100)).all()
    # Each source once with its control, and at two levels.
    assert len(pairs_in(table.path, folder / "photographs")) == 6


def test_an_editor_without_a_control_makes_none(folder: Path) -> None:
    table = table_by(folder, "alone", changes={"pale": [1]})
    assert (table.images, table.controls, table.left_out) == (2, False, {})
    assert str(table).startswith("2 images, without controls: ")
    assert {each.pair.change for each in pairs_in(table.path, folder / "photographs")} == {"pale"}


def test_what_an_editor_does_not_make_is_named_by_the_reason(folder: Path) -> None:
    table = table_by(folder, "odd", None, changes={"in fog": [1]}, seconds=5.0)
    assert {why: len(names) for why, names in table.left_out.items()} == {
        "what it returned has values from nan to nan: expected integers from 0 to 255, or floats from 0 "
        "to 1, before any normalisation": 1,
        "it raised ValueError: no such fog": 1,
        "what it returned is a str, not an image: expected a PIL image or an array": 1,
        "its process ended": 1,
        "it took more than 5 s": 1,
    }
    # The controls, and the image that it returns as it is: that it is the same is told with the run.
    assert table.images == 7
    assert "not made, 1: it took more than 5 s (change-1-level-1/cat/5.png.png)" in str(table)
    # The run that takes the table counts them, too.
    rows = pairs_in(table.path, folder / "photographs")
    assert [(row.filename, row.pair.not_made) for row in rows if row.pair.not_made][-2:] == [
        ("change-1-level-1/cat/4.png.png", "its process ended"),
        ("change-1-level-1/cat/5.png.png", "it took more than 5 s"),
    ]
    assert len(rows) == 7


def test_what_opens_and_writes_images_is_loaded_before_the_time_of_an_image_begins(folder: Path) -> None:
    loaded = "print(sorted(name for name in sys.modules if name.startswith('PIL.')))"
    before = f"import sys; sys.path.insert(0, {str(folder)!r}); from counterpose._datasets import own_editor"
    ready = "own_editor._image(('py:fogs:darker', b'', None, own_editor.IMPORTED, 0))"
    made = "own_editor._image(('py:fogs:darker', open('photographs/cat/0.png', 'rb').read(), 'dark', 1, 0))"
    program = "\n".join([before, ready, loaded, made, loaded])
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert "PIL.PngImagePlugin" in first
    assert first == second


@pytest.mark.parametrize(
    ("editor", "fault"),
    [
        ("py:fogs:broken", "fails on the first images: it raised ValueError: no network"),
        ("py:fogs:none", "has no function 'none'"),
        ("py:nowhere:edit", "cannot import 'nowhere'"),
        ("fogs.broken", "expected py:module:function, or an address"),
    ],
)
def test_an_editor_that_cannot_be_used_is_refused(folder: Path, editor: str, fault: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_pairs(folder / "photographs", editor=editor, changes={"dark": [1]}, out=folder / "made")
    assert fault in raised.value.detail


def test_a_folder_with_files_is_not_written_into(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="has files already; name a new one"):
        make_pairs(folder / "photographs", editor="py:fogs:darker", changes={"dark": [1]}, out=folder)


class Answers(BaseHTTPRequestHandler):
    """An editor by address: the change that is asked for says how it fails."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert base64.b64decode(told["image"]).startswith(b"\x89PNG")
        self.asked.append((self.path, told["change"]))
        with suppress(OSError):
            getattr(self, f"_{told['change']}".replace(" ", "_"))()

    def _answer(self, status: int, length: int = 6, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _None(self) -> None:  # noqa: N802 - the control
        self._answer(501, 0)

    def _in_fog(self) -> None:
        self._answer(200)
        self.wfile.write(b"a file")

    def _moved(self) -> None:
        self._answer(307, 0, location="/private")

    def _large(self) -> None:
        self._answer(200, 10**12)
        while True:
            self.wfile.write(bytes(1 << 20))

    def _slow(self) -> None:
        # Each header comes in time, and there is no end of them.
        self.send_response(200)
        while True:
            self.send_header("x-more", "1")
            self.flush_headers()
            time.sleep(0.2)

    def _busy(self) -> None:
        self._answer(503, 0)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """The address of such an editor."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Answers.asked.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/edit"
    server.shutdown()
    server.server_close()


def test_an_address_is_asked_within_bounds_and_its_failures_are_named(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy of the environment must not see the image.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    changes = {name: [1] for name in ("in fog", "moved", "large", "slow", "busy")}
    table = make_pairs(
        folder / "photographs", editor=address, changes=changes, out=folder / "made", limit=1, seconds=8.0
    )
    assert (table.images, table.controls) == (1, False)
    assert (folder / "made/change-1-level-1/cat/0.png.png").read_bytes() == b"a file"
    assert list(table.left_out) == [
        "it redirects to '/private'; redirects are not followed",
        "it answered with no file of at most 22500000 bytes",
        "it took more than 8 s",
        "it answered with the status 503",
    ]
    assert Answers.asked == [("/edit", change) for change in (None, *changes)]


def test_an_address_that_is_none_is_named(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="fails on the first images: it cannot be reached: "):
        make_pairs(folder / "photographs", editor="http://[", changes={"dark": [1]}, out=folder / "made")


def test_the_command_says_what_it_made_and_what_comes_next(folder: Path) -> None:
    shown = run(
        "make-pairs", str(folder / "photographs"), "--editor", "py:fogs:darker", "--change", "dark",
        "--level", "2", "--out", str(folder / "made"), "--limit", "1",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("2 images, with a control of each source: ")
    assert "counterpose stress-test" in shown.stderr


def test_the_command_finds_a_module_where_it_is_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As an installed command, which has no working directory among its places.
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(folder)])
    monkeypatch.chdir(folder)
    limit = "--limit", "1"
    shown = run(
        "make-pairs", "photographs", "--editor", "py:fogs:darker", "--change", "dark", "--out", "made", *limit
    )
    assert shown.exit_code == 0, shown.stderr
