"""Calibrates what the miniature suite's own images measure at least, and counts false alarms and photographs.

    python -m evaluation.edit_quality.calibrate_known_images --out evaluation/results/known-images.json

Development scenes are captioned and redrawn as a stress test does with a source image. The value below which
one in 300 of them lies, of each measure, is printed for ``[known_images]`` of the suite's file. By these,
validation scenes of two distributions are judged (false alarms), and the photographs that scikit-image and
scikit-learn ship (detection).
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import ReconstructItem, ReconstructRequest
from counterpose_core.contract.scorer import ScoreItem, ScoreRequest
from counterpose_core.contract.suite_fit import MEASURES, KnownImages
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import Suite, load_suite
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET, UNIFORM, Distribution
from counterpose_miniature.world.seeds import DEVELOPMENT, VALIDATION, SeedRange, scene_for
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.paths import SUITE_WEIGHTS

FIRST_SCENE = 5_000_000
BATCH = 16
SHARE = 1 / 300
"""Of each of three measures: at most one image in a hundred of the suite's own is taken for one outside."""

NO_PHOTOGRAPHS = (
    "cell", "chessboard", "clock_motion", "color", "horse", "ihc", "logo", "microaneurysms", "page",
    "phantom", "text",
)  # fmt: skip
"""Drawings, scans and micrographs among scikit-image's files."""


class Measuring:
    """The engines of one suite, around one store."""

    def __init__(self, suite: Suite, store: BlobStore) -> None:
        self._preset = suite.editor.presets[suite.editor.default_preset]
        self._store = store
        self._captioner = CaptionerEngine.load(suite.captioner, SUITE_WEIGHTS, store)
        self._editor = EditorEngine.load(suite.editor, SUITE_WEIGHTS, store)
        self._scorer = ScorerEngine.load(suite.scorer, SUITE_WEIGHTS, store)

    def of(self, images: Sequence[bytes]) -> list[dict[str, float]]:
        """Measure images as a stress test measures its sources."""
        found: list[dict[str, float]] = []
        for start in tqdm(range(0, len(images), BATCH)):
            found += self._batch([self._store.put(data) for data in images[start : start + BATCH]])
        return found

    def _batch(self, images: Sequence[str]) -> Iterator[dict[str, float]]:
        asked = CaptionRequest(items=[CaptionItem(image=image) for image in images])
        captions = [outcome.unwrap() for outcome in self._captioner.caption(asked).outcomes]
        pairs = list(zip(images, captions, strict=True))
        redraw = ReconstructRequest(
            items=[ReconstructItem(image=image, caption=caption.text) for image, caption in pairs],
            preset=self._preset,
        )
        redrawn = [outcome.unwrap() for outcome in self._editor.reconstruct(redraw).outcomes]
        items = [
            ScoreItem(
                original=image, edited=drawn.image, caption=caption.text, edited_caption=caption.text,
                removed="", added="",
            )
            for (image, caption), drawn in zip(pairs, redrawn, strict=True)
        ]  # fmt: skip
        scores = [outcome.unwrap() for outcome in self._scorer.score(ScoreRequest(items=items)).outcomes]
        for (_, caption), drawn, scored in zip(pairs, redrawn, scores, strict=True):
            yield {
                "caption_nats": caption.log_likelihood / caption.tokens,
                "image_text": scored.text_original,
                "psnr_db": drawn.psnr_db,
            }


def scenes(split: SeedRange, distribution: Distribution, number: int) -> list[bytes]:
    """Rendered scenes of a split, encoded as a user's images are."""
    return [
        encode_png(render(scene_for(split, FIRST_SCENE + index, distribution))) for index in range(number)
    ]


def photographs() -> dict[str, bytes]:
    """The photographs that scikit-image and scikit-learn ship in their wheels, by file name."""
    found: dict[str, bytes] = {}
    for package, folder in (("scikit-image", "skimage/data/"), ("scikit-learn", "sklearn/datasets/images/")):
        for file in metadata.files(package) or []:
            is_image = file.suffix in (".png", ".jpg") and str(file).startswith(folder)
            if is_image and not file.name.startswith(NO_PHOTOGRAPHS):
                out = io.BytesIO()
                with Image.open(str(file.locate())) as image:
                    image.convert("RGB").save(out, "PNG")
                found[file.name] = out.getvalue()
    return dict(sorted(found.items()))


def calibrate(rows: Sequence[dict[str, float]], preset: str) -> KnownImages:
    """The values below which a share of the images lies, of each measure."""
    lowest = {name: float(np.quantile([row[name] for row in rows], SHARE)) for name in MEASURES}
    return KnownImages(preset=preset, images=len(rows), **lowest)


def told(rows: Sequence[dict[str, float]], known: KnownImages) -> dict[str, Any]:
    """The share of images that lie outside, with its interval, and by which measures."""
    outside = [known.fit(**row).outside for row in rows]
    return {
        "outside": proportion(sum(map(bool, outside)), len(rows)).model_dump(),
        "by": {name: sum(name in by for by in outside) for name in MEASURES},
    }


def main() -> None:
    """Measure, calibrate, judge and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=600, help="number of scenes of each part")
    parser.add_argument("--out", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    suite, n = load_suite("miniature"), arguments.scenes
    with tempfile.TemporaryDirectory() as folder:
        measuring = Measuring(suite, BlobStore(folder))
        known = calibrate(measuring.of(scenes(DEVELOPMENT, DATASET, n)), suite.editor.default_preset)
        parts = {
            "validation": scenes(VALIDATION, DATASET, n),
            "validation-uniform": scenes(VALIDATION, UNIFORM, n),
            "photographs": list(photographs().values()),
        }
        judged = {name: told(measuring.of(images), known) for name, images in parts.items()}
    figures = {"suite": suite.name, "known_images": known.model_dump(), **judged}
    text = json.dumps(figures, indent=2) + "\n"
    sys.stdout.write(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
