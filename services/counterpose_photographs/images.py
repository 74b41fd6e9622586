"""``python -m counterpose_photographs.images OUT --models FOLDER``: write real images, a folder a class.

Cut-outs before photographed backgrounds, with their masks, where their package can be had, else photographs
that packages ship. Size, place and background of each cut-out depend on no network's answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from counterpose_photographs.cutouts import cutouts, labels
from counterpose_photographs.networks import NETWORKS, right_answers
from counterpose_photographs.scenes import backgrounds, scenes

SIDE = 224
OBJECT = 170
"""Pixels of an image's side, and of the longest side of the cut-out in its middle."""

MASKS = "masks"
"""The folder beside those of the classes that says where the object of each image is."""


def write_cutouts(out: Path, found: Mapping[str, Image.Image]) -> int:
    """Write the cut-outs, each in the middle of the next background in turn; return how many."""
    grounds = [each.resize((SIDE, SIDE)) for each in backgrounds()]
    for at, (path, cutout) in enumerate(found.items()):
        ground = grounds[at % len(grounds)].copy()
        shown = _reduced(cutout, OBJECT)
        place = (SIDE - shown.width) // 2, (SIDE - shown.height) // 2
        ground.paste(shown, place, shown)
        mask = Image.new("L", ground.size)
        mask.paste(shown.getchannel("A"), place)
        _write(out, labels()[path], Path(path).stem, ground)
        _write(out / MASKS, labels()[path], Path(path).stem, mask)
    return len(found)


def write_scenes(out: Path, models: Path) -> int:
    """Write the photographs whose class at least one of the networks answers; return how many.

    Their labels are not a network's, so an image that none recognises may be one whose label is wrong.
    """
    found = [(name, label, _reduced(image, 2 * SIDE)) for name, label, image in scenes()]
    pixels, names = [np.asarray(image) for *_, image in found], [label for _, label, _ in found]
    right = [right_answers(network, models, pixels, names) for network in NETWORKS]
    chosen = [each for each, *answers in zip(found, *right, strict=True) if any(answers)]
    for name, label, image in chosen:
        _write(out, label, name, image)
    return len(chosen)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments and write the images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, required=True, help="folder of the written networks")
    given = parser.parse_args(arguments)
    if found := cutouts():
        told = f"{write_cutouts(given.out, found)} cut-outs before photographed backgrounds"
    elif number := write_scenes(given.out, given.models):
        told = f"{number} photographs that packages ship"
    else:
        parser.error("there is neither the package of cut-outs nor a photograph of a package")
    sys.stdout.write(f"{told}\n")


def _reduced(image: Image.Image, side: int) -> Image.Image:
    """Return the image scaled to a longest side of so many pixels."""
    factor = side / max(image.size)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def _write(out: Path, label: str, name: str, image: Image.Image) -> None:
    folder = out / label
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / f"{name}.png")


if __name__ == "__main__":
    main()
