"""The comparison of corruptions with published ones: chosen levels, and pieces that are not made twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from counterpose_core.transforms.arrays import Pixels
from evaluation.transforms.corruptions import main


def published(image: Pixels, level: int, name: str) -> Pixels:
    """Noise on every value: no corruption is as it."""
    return np.asarray(np.clip(image + np.random.randint(-90, 91, image.shape), 0, 255), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Image.linear_gradient("L").save(tmp_path / "photograph.png")
    monkeypatch.setitem(sys.modules, "imagecorruptions", SimpleNamespace(corrupt=published))
    return tmp_path


def test_the_levels_that_are_chosen_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(folder), "--names", "brightness", "--levels", "2", "4"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["corruption"], line["level"]) for line in lines] == [("brightness", 2), ("brightness", 4)]
    assert all(line["largest"] > 1 for line in lines)


def test_what_was_compared_is_not_compared_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [str(folder), "--names", "gaussian-noise", "--levels", "3", "--pieces", str(folder / "pieces")]
    main([*asked, "--draws", "8"])
    first = capsys.readouterr().out
    assert json.loads(first)["ssim"]["told apart"] == 1.0
    assert len(list((folder / "pieces").glob("*.json"))) == 1
    monkeypatch.setitem(sys.modules, "imagecorruptions", SimpleNamespace(corrupt=None))
    main([*asked, "--draws", "8"])
    assert capsys.readouterr().out == first
    with pytest.raises(TypeError):
        main([*asked, "--draws", "9"])
