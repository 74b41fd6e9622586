"""Labelled photographs that Python packages ship, read of their files without importing the packages."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from PIL import Image

from counterpose_core.text.imagenet_hierarchy import class_names

SCENES: Mapping[str, Mapping[str, str]] = {
    "scikit-image": {
        "skimage/data/astronaut.png": "space shuttle",
        "skimage/data/camera.png": "tripod",
        "skimage/data/chelsea.png": "Egyptian cat",
        "skimage/data/coffee.png": "espresso",
        "skimage/data/motorcycle_left.png": "moped",
        "skimage/data/rocket.jpg": "missile",
    },
    "scikit-learn": {
        "sklearn/datasets/images/china.jpg": "palace",
        "sklearn/datasets/images/flower.jpg": "daisy",
    },
}
"""Photographs by package and file, with the class of ImageNet-1k that they show. None is a background."""

BACKGROUNDS = ("grass", "gravel", "brick")
"""Photographs of ground and wall in scikit-image, which show no object. A plain script had measured networks
on them before they were chosen."""

COLLECTION = "foolbox==3.3.4"
"""Its wheel holds 20 photographs of ImageNet, whose file names end in the number of their class."""
_NUMBERED = re.compile(r"foolbox/data/imagenet_\d+_(\d+)\.jpg")
FETCH_S = 60.0


def backgrounds() -> list[Image.Image]:
    """Return the photographed backgrounds (RGB)."""
    names = [f"skimage/data/{name}.png" for name in BACKGROUNDS]
    files = _files("scikit-image")
    return [Image.open(files[name]).convert("RGB") for name in names]


def scenes() -> Iterator[tuple[str, str, Image.Image]]:
    """Yield name, class of ImageNet-1k and pixels (RGB) of each photograph that can be had."""
    for package, labels in SCENES.items():
        files = _files(package)
        for file, label in labels.items():
            if file in files:
                yield Path(file).stem, label, Image.open(files[file]).convert("RGB")
    classes = list(class_names().values())
    for name, content in _collection().items():
        numbered = _NUMBERED.fullmatch(name)
        assert numbered is not None  # _collection has only such names
        yield Path(name).stem, classes[int(numbered[1])], Image.open(io.BytesIO(content)).convert("RGB")


def _files(package: str) -> dict[str, Path]:
    try:
        return {str(file): Path(str(file.locate())) for file in metadata.files(package) or []}
    except metadata.PackageNotFoundError:
        return {}


def _collection() -> dict[str, bytes]:
    """Return the numbered photographs by name: of the installed package, else of its wheel, else none."""
    installed = {name: file for name, file in _files("foolbox").items() if _NUMBERED.fullmatch(name)}
    if installed:
        return {name: file.read_bytes() for name, file in installed.items()}
    with tempfile.TemporaryDirectory() as folder:
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
            COLLECTION,
        ]
        try:
            subprocess.run(fetch, check=True, timeout=FETCH_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            sys.stdout.write(f"the photographs of {COLLECTION} cannot be had: {error}\n")
            return {}
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist() if _NUMBERED.fullmatch(name)}
