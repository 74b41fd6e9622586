"""What batches gain in learning and drawing: the speed-up, and the difference from one call after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.contract.tokens import LearnTokenItem, LearnTokensRequest
from counterpose_core.images.codecs import encode_raw
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.suite import EditorSuite
from counterpose_core.types import Estimate
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import load_pipeline
from evaluation.benchmarks.interleaved import interleaved, ratios

from .report import BatchingFigures

SAMPLES = 24
"""Of a class in one piece of work."""
IMAGES = 16
ROUNDS = 4
_ANY = (0.0, float("inf"))


class Lessons:
    """The same classes learned together and one after another, ``batch`` samples a class and step.

    ``scenes`` maps each class to what it learns from.
    """

    def __init__(
        self,
        suite: EditorSuite,
        weights: Path,
        folder: Path,
        scenes: Mapping[str, Sequence[Scene]],
        *,
        dtype: str = "float32",
        batch: int,
    ) -> None:
        self._suite, self._folder = suite, folder
        self._images = {name: [encode_raw(render(scene)) for scene in each] for name, each in scenes.items()}
        self._pipeline = load_pipeline(suite, weights, device="cpu", dtype=dtype)
        changes = {"steps": SAMPLES // batch, "batch": batch, "interpolation_weights": (1.0,)}
        self._preset = suite.textual_inversion.model_copy(update=changes)
        self._store = BlobStore(str(folder / "store"))
        self._seeds = count()

    def together(self) -> None:
        """Learn all classes in one batch, with a seed of its own, so that nothing is cached."""
        self.learned(self._store, next(self._seeds), [list(self._images)])

    def one_by_one(self) -> None:
        """Learn each class in a separate call."""
        self.learned(self._store, next(self._seeds), [[name] for name in self._images])

    def difference(self) -> Estimate:
        """How far classes learned together are from those learned alone, with the same draws."""
        names = list(self._images)
        orders = {"together": [names], "alone": [[name] for name in names]}
        # One store for each, or the second would find the first one's cached results.
        found = [
            self.learned(BlobStore(str(self._folder / name)), 0, order) for name, order in orders.items()
        ]
        return largest_difference(*found)

    def learned(
        self, store: BlobStore, seed: int, groups: Sequence[Sequence[str]]
    ) -> dict[str, NDArray[np.floating]]:
        """Learn the classes, one call a group; return each class's vectors (k, D) as they were computed."""
        engine, vectors = EditorEngine(self._pipeline, self._suite, store), {}
        for group in groups:
            items = [self._item(store, name) for name in group]
            request = LearnTokensRequest(
                items=items, preset=self._preset, link_steps=self._preset.steps, seed=seed
            )
            for name, outcome in zip(group, engine.learn_tokens(request).outcomes, strict=True):
                checkpoint = outcome.unwrap().checkpoint
                assert checkpoint is not None  # no token was published
                # From the checkpoint, as a bundle's vectors are rounded to float32.
                vectors[name] = load(store.get(checkpoint))["vectors"]
        return vectors

    def _item(self, store: BlobStore, name: str) -> LearnTokenItem:
        return LearnTokenItem(class_name=name, images=[store.put(each) for each in self._images[name]])


class Drawings:
    """Images of the classes' names, drawn one at a time or in a batch."""

    def __init__(self, suite: EditorSuite, weights: Path, folder: Path, names: Sequence[str]) -> None:
        pipeline = load_pipeline(suite, weights, device="cpu", dtype="float32")
        self._engine = EditorEngine(pipeline, suite, BlobStore(str(folder)))
        self._generation, self._names, self._seeds = suite.generation, names, count()

    def drawn(self, batch: int) -> None:
        """Draw the images in calls of the given size."""
        preset, names, seed = self._generation, self._names, next(self._seeds)
        items = [
            GenerateItem(prompt=f"a photo of a {names[place % len(names)]}", seed=IMAGES * seed + place)
            for place in range(IMAGES)
        ]
        for start in range(0, IMAGES, batch):
            some = items[start : start + batch]
            self._engine.generate(GenerateRequest(items=some, steps=preset.steps, guidance=preset.guidance))


def batching_figures(
    suite: EditorSuite, weights: Path, folder: Path, scenes: Mapping[str, Sequence[Scene]]
) -> BatchingFigures:
    """Measure what batches gain on one thread; ``folder`` receives the intermediate files."""
    folder.mkdir(parents=True, exist_ok=True)
    with _one_thread(), TemporaryDirectory(dir=folder) as work:
        published = Lessons(suite, weights, Path(work) / "published", scenes, batch=1)
        chosen = suite.textual_inversion.batch
        preset = Lessons(suite, weights, Path(work) / "preset", scenes, batch=chosen)
        exact = Lessons(suite, weights, Path(work) / "exact", scenes, batch=1, dtype="float64")
        drawings = Drawings(suite, weights, Path(work) / "drawings", list(scenes))
        return BatchingFigures(
            tokens=times_as_fast(published.one_by_one, published.together, ROUNDS),
            tokens_by_preset=times_as_fast(preset.one_by_one, preset.together, ROUNDS),
            tokens_difference=exact.difference(),
            generation=times_as_fast(lambda: drawings.drawn(1), lambda: drawings.drawn(IMAGES), 2 * ROUNDS),
        )


def times_as_fast(slow: Callable[[], object], fast: Callable[[], object], rounds: int) -> Estimate:
    """How many times as fast the second is in wall-clock time: the mean over interleaved rounds."""
    # Warm up first: the first call of a kind chooses kernels and encodes images.
    slow()
    fast()
    laps = interleaved({"slow": slow, "fast": fast}, rounds)
    found = ratios(laps["slow"]["wall"], laps["fast"]["wall"])
    return bootstrap_mean(found, np.random.default_rng(0), bounds=_ANY)


def largest_difference(
    first: Mapping[str, NDArray[np.floating]], second: Mapping[str, NDArray[np.floating]]
) -> Estimate:
    """The largest difference of any number of two sets of vectors; n counts numbers."""
    gaps = [np.abs(each - second[name]).ravel() for name, each in first.items()]
    largest = float(max(gap.max() for gap in gaps))
    return Estimate(estimate=largest, low=largest, high=largest, n=sum(gap.size for gap in gaps))


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
