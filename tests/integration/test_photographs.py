"""Photographs and a network of ImageNet under the miniature suite: told within a minute, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterpose._cli.exit_code import ExitCode
from counterpose._stack import Stack
from fakes import imagenet_network
from fakes.command import run

PHOTOGRAPHS: Mapping[str, str] = {
    "skimage/data/chelsea.png": "Egyptian cat",
    "skimage/data/coffee.png": "espresso",
    "skimage/data/camera.png": "tripod",
    "skimage/data/rocket.jpg": "missile",
    "skimage/data/motorcycle_left.png": "moped",
    "skimage/data/motorcycle_right.png": "moped",
    "skimage/data/astronaut.png": "space shuttle",
    "skimage/data/brick.png": "stone wall",
    "skimage/data/gravel.png": "stone wall",
    "skimage/data/grass.png": "hay",
    "sklearn/datasets/images/china.jpg": "palace",
    "sklearn/datasets/images/flower.jpg": "daisy",
}
"""The sample images of scikit-image and scikit-learn, by the class of ImageNet-1k that they show."""

SIZES = ((320, 240), (300, 240), (320, 220), (280, 240))
"""Sizes of each photograph, in pixels: with one of each a run may end before its first eight are judged."""


def photograph(name: str) -> Image.Image:
    package = "scikit-image" if name.startswith("skimage") else "scikit-learn"
    file = next(each for each in metadata.files(package) or [] if str(each) == name)
    return Image.open(str(file.locate())).convert("RGB")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one subfolder per class."""
    folder = tmp_path_factory.mktemp("photographs")
    for name, label in PHOTOGRAPHS.items():
        for width, height in SIZES:
            target = folder / label / f"{Path(name).stem}-{width}x{height}.png"
            target.parent.mkdir(exist_ok=True)
            photograph(name).resize((width, height)).save(target)
    return folder


def test_the_network_is_right_on_photographs() -> None:
    """So the test below is one of a real network on real photographs, whatever the suite can do with them."""
    certain = ["skimage/data/coffee.png", "skimage/data/camera.png", "skimage/data/chelsea.png"]
    images = np.stack([np.asarray(photograph(name).resize((224, 224))) for name in certain])
    answers = imagenet_network.predict(images).argmax(axis=1)
    assert [imagenet_network.classes[answer] for answer in answers] == [PHOTOGRAPHS[name] for name in certain]


@pytest.mark.timeout(300, func_only=True)
def test_a_stress_test_of_photographs_says_that_they_lie_outside_the_suite(
    running_stack: Stack, photographs: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    shown = run(
        "stress-test", str(photographs), "--classifier", "py:fakes.imagenet_network:predict",
        "--edit-type", "background", "--max-edits-per-image", "1", "--lance-r-edits-per-image", "0",
        "--no-confirm", "--report", str(report), "--url", running_stack.url,
    )  # fmt: skip
    assert shown.exit_code == ExitCode.INCOMPLETE, shown.output
    first = shown.stdout.splitlines()[0]
    assert "images lie outside what suite 'miniature' was trained on: " in first
    assert "the caption does not fit the image" in first
    assert "choose a suite with published weights (docs/how-to/gpu.md)" in first
    assert "--suite photographs" in shown.stderr
    assert "or start it with outside_suite='continue' (--anyway)" in shown.stderr
    assert "images lie outside what suite" in report.read_text(encoding="utf-8")
