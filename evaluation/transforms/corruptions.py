"""Hold our corruptions against the package imagecorruptions-imaug, on photographs of 224 x 224 pixels.

The package needs OpenCV and Numba, so it gets an environment of its own, with NumPy, SciPy, Pillow and
scikit-image. There, with `services` and the clone's root on PYTHONPATH::

    python -m evaluation.transforms.corruptions FOLDER_OF_PHOTOGRAPHS [--draws 200] [--names snow,fog]
        [--levels 3] [--pieces FOLDER]

prints one JSON line for each corruption and level. Deterministic ones: largest mean and largest difference of
any photograph, in levels. Random ones: for each statistic, ours less theirs in standard deviations of their
draws, on average over the photographs, and the share of photographs in which a Kolmogorov-Smirnov test at 5 %
tells the two apart: about 0.05 if they are alike, at each of many comparisons. With ``--pieces``, what was
compared of each photograph is kept, and a run that was ended goes on from there; after a change of an
operation, give another folder.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from PIL import Image, ImageOps

from counterpose_core.transforms.application import apply, generator_of
from counterpose_core.transforms.arrays import Pixels
from counterpose_core.transforms.table import LEVELS, OPERATIONS, PUBLISHED_SIDE, Operation

BANDS = ((0.005, 0.03), (0.03, 0.1), (0.1, 0.25), (0.25, 0.5))
"""Cycles per pixel, between which the power is summed."""
STATISTICS = ("mean", "deviation", *(f"power to {high}" for _, high in BANDS), "ssim")

Corrupt = Callable[[Pixels, int, str], Pixels]


def photographs(folder: Path) -> list[Pixels]:
    """Return the middle square of each PNG and JPEG of a folder, in the published size."""
    size = (PUBLISHED_SIDE, PUBLISHED_SIDE)
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    images = [ImageOps.fit(Image.open(path).convert("RGB"), size, Image.Resampling.LANCZOS) for path in paths]
    return [np.asarray(image) for image in images]


def deterministic(row: Operation, level: int, images: Sequence[Pixels], corrupt: Corrupt) -> dict[str, float]:
    """Return the largest mean and the largest difference of any photograph."""
    published = row.name.replace("-", "_")
    away = [
        np.abs(apply(image, row, level).astype(int) - corrupt(image, level, published)) for image in images
    ]
    return {
        "mean": float(max(gap.mean() for gap in away)),
        "largest": float(max(gap.max() for gap in away)),
    }


def random(
    row: Operation, level: int, images: Sequence[Pixels], corrupt: Corrupt, draws: int, pieces: Path | None
) -> dict[str, dict[str, float]]:
    """Return for each statistic how far ours lies from theirs, and how often a test tells them apart."""
    compared = []
    for place, image in enumerate(images):
        text = f"{row.name} {level} {draws} {place} {hashlib.sha256(image.tobytes()).hexdigest()}"
        file = None if pieces is None else pieces / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
        if file is not None and file.is_file():
            compared.append(json.loads(file.read_bytes()))
            continue
        compared.append(_compared(row, level, place, image, corrupt, draws))
        if file is not None:
            part = file.with_suffix(".part")
            part.write_text(json.dumps(compared[-1]), encoding="utf-8")
            part.replace(file)
    away = np.mean([each["away"] for each in compared], 0)
    apart = np.mean(np.array([each["p"] for each in compared]) < 0.05, 0)
    rows = zip(STATISTICS, away, apart, strict=True)
    return {name: {"away": float(far), "told apart": float(share)} for name, far, share in rows}


def _compared(
    row: Operation, level: int, place: int, image: Pixels, corrupt: Corrupt, draws: int
) -> dict[str, list[float]]:
    """Compare the draws of one photograph: a difference and the p of a test for each statistic."""
    generators = (generator_of(str(place), row.name, level, seed) for seed in range(draws))
    ours = np.array([_statistics(apply(image, row, level, generator), image) for generator in generators])
    published = row.name.replace("-", "_")
    np.random.seed(place)  # the package draws from NumPy's global generator
    theirs = np.array([_statistics(corrupt(image, level, published), image) for _ in range(draws)])
    tests = (scipy.stats.ks_2samp(*pair) for pair in zip(ours.T, theirs.T, strict=True))
    away = (ours.mean(0) - theirs.mean(0)) / theirs.std(0)
    return {"away": away.tolist(), "p": [float(test.pvalue) for test in tests]}


def _statistics(changed: Pixels, image: Pixels) -> list[float]:
    similarity: Any = importlib.import_module("skimage.metrics").structural_similarity
    grey = changed.mean(axis=-1)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    frequency = np.hypot(np.fft.fftfreq(PUBLISHED_SIDE)[:, None], np.fft.fftfreq(PUBLISHED_SIDE))
    bands = [power[(frequency >= low) & (frequency < high)].sum() for low, high in BANDS]
    return [changed.mean(), changed.std(), *np.log10(bands), similarity(image, changed, channel_axis=-1)]


def main(arguments: Sequence[str]) -> None:
    """Print the comparison of each corruption and level, one JSON line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--names", default="", help="corruptions, separated by commas; all if left out")
    parser.add_argument(
        "--levels",
        type=int,
        nargs="+",
        choices=range(1, LEVELS + 1),
        default=range(1, LEVELS + 1),
        help="all if left out",
    )
    parser.add_argument("--pieces", type=Path, help="folder that keeps what was compared")
    chosen = parser.parse_args(arguments)
    images = photographs(chosen.folder)
    corrupt: Corrupt = importlib.import_module("imagecorruptions").corrupt
    if chosen.pieces is not None:
        chosen.pieces.mkdir(parents=True, exist_ok=True)
    names = [name for name in chosen.names.split(",") if name] or list(OPERATIONS)
    for row in (OPERATIONS[name] for name in names if OPERATIONS[name].family == "corruption"):
        for level in chosen.levels:
            if row.is_random:
                result: dict[str, Any] = dict(
                    random(row, level, images, corrupt, chosen.draws, chosen.pieces)
                )
            else:
                result = dict(deterministic(row, level, images, corrupt))
            line = {"corruption": row.name, "level": level, "images": len(images), **result}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
