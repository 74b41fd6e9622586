"""An editor of the user's own: what it makes, and what becomes of an image that it does not make."""

from __future__ import annotations

import base64
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
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


def made_by(folder: Path, function: str, limit: int | None = 2, **changes: Any) -> own_editor.MadePairs:
    asked = {"changes": {"dark": [1, 2]}} | changes
    editor = f"py:fogs:{function}"
    return make_pairs(folder / "photographs", editor=editor, out=folder / "made", limit=limit, **asked)


def test_a_function_makes_each_level_and_a_control_that_the_table_names(folder: Path) -> None:
    made = made_by(folder, "darker")
    assert (made.images, made.controls, made.left_out) == (6, True, {})
    with made.table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["source"], row["change"], row["level"]) for row in rows] == [
        ("cat/0.png", "dark", "1"), ("cat/0.png", "dark", "2"),
        ("cat/1.png", "dark", "1"), ("cat/1.png", "dark", "2"),
    ]  # fmt: skip
    pixels = np.asarray(Image.open(folder / "made" / rows[1]["counterfactual"]))
    assert (pixels == (0, 60, 60)).all()
    assert (np.asarray(Image.open(folder / "made" / rows[1]["control"])) == (0, 100, 100)).all()
    # Each source once with its control, and at two levels.
    assert len(pairs_in(made.table, folder / "photographs")) == 6


def test_an_editor_without_a_control_makes_none(folder: Path) -> None:
    made = made_by(folder, "alone", changes={"pale": [1]})
    assert (made.images, made.controls, made.left_out) == (2, False, {})
    assert str(made).startswith("2 images, without controls: ")
    assert {each.pair.change for each in pairs_in(made.table, folder / "photographs")} == {"pale"}


def test_what_an_editor_does_not_make_is_named_by_the_reason(folder: Path) -> None:
    made = made_by(folder, "odd", None, changes={"in fog": [1]}, seconds=5.0)
    assert {why: len(names) for why, names in made.left_out.items()} == {
        "what it returned has values from nan to nan: expected integers from 0 to 255, or floats from 0 "
        "to 1, before any normalisation": 1,
        "it raised ValueError: no such fog": 1,
        "what it returned is a str, not an image: expected a PIL image or an array": 1,
        "its process ended": 1,
        "it took more than 5 s": 1,
    }
    # The controls, and the image that it returns as it is: that it is the same is told with the run.
    assert made.images == 7
    assert "not made, 1: it took more than 5 s (change-1-level-1/cat/5.png.png)" in str(made)


def test_what_opens_and_writes_images_is_loaded_before_the_time_of_an_image_begins(folder: Path) -> None:
    loaded = "print(sorted(name for name in sys.modules if name.startswith('PIL.')))"
    before = f"import sys; sys.path.insert(0, {str(folder)!r}); from counterpose._datasets import own_editor"
    ready = "own_editor._done(('py:fogs:darker', b'', None, own_editor.IMPORTED, 0))"
    made = "own_editor._done(('py:fogs:darker', open('photographs/cat/0.png', 'rb').read(), 'dark', 1, 0))"
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


def test_an_address_is_asked_and_its_failures_are_named(folder: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        told = json.loads(request.content)
        assert base64.b64decode(told["image"]).startswith(b"\x89PNG")
        if told["change"] is None:
            return httpx.Response(501)
        if told["level"] == 2:
            raise httpx.ReadTimeout("late")
        return httpx.Response(503) if told["level"] == 3 else httpx.Response(200, content=b"a file")

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        edit = own_editor._Address("http://127.0.0.1:9/edit", 5.0, client)
        content = (folder / "photographs/cat/0.png").read_bytes()
        assert edit.made(content, "in fog", 1, 0) == b"a file"
        for change, level, why in (
            (None, 0, own_editor.NO_CONTROL), ("in fog", 2, "it took more than 5 s"),
            ("in fog", 3, "it answered with the status 503"),
        ):  # fmt: skip
            with pytest.raises(own_editor.EditFailed, match=why):
                edit.made(content, change, level, 0)


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
    made = "made", "--limit", "1"
    shown = run("make-pairs", "photographs", "--editor", "py:fogs:darker", "--change", "dark", "--out", *made)
    assert shown.exit_code == 0, shown.stderr
