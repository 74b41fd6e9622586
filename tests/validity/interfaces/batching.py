"""What learning and drawing in batches is worth: times as fast, and how far from one after another."""

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

from benchmarks.interleaved import interleaved, ratios
from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.contract.tokens import LearnTokenItem, LearnTokensRequest
from faultline_core.images import encode_raw
from faultline_core.statistics import bootstrap_mean
from faultline_core.suite import EditorSuite
from faultline_core.types import Estimate
from faultline_miniature.world.renderer import render
from faultline_miniature.world.scene import Scene
from faultline_services.editor.engine import EditorEngine
from faultline_services.editor.pipeline import load_pipeline

from .report import BatchingFigures

STEPS = 6
PICTURES = 16
ROUNDS = 3
_ANY = (0.0, float("inf"))


class Lessons:
    """The same classes learned together and one after another, each round with draws of its own.

    ``scenes`` maps each class to what it learns from. Every piece of work has an empty store, so that nothing
    is remembered from the one before.
    """

    def __init__(
        self,
        suite: EditorSuite,
        weights: Path,
        folder: Path,
        scenes: Mapping[str, Sequence[Scene]],
        dtype: str,
    ) -> None:
        self._suite, self._folder = suite, folder
        self._pictures = {
            name: [encode_raw(render(scene)) for scene in each] for name, each in scenes.items()
        }
        self._pipeline = load_pipeline(suite, weights, device="cpu", dtype=dtype)
        self._preset = suite.textual_inversion.model_copy(update={"steps": STEPS})
        self._made = count()

    def learned(self, seed: int, groups: Sequence[Sequence[str]]) -> dict[str, NDArray[np.floating]]:
        """Learn the classes a call a group; returns each one's vectors (k, D)."""
        engine, vectors = self._engine(), {}
        for group in groups:
            request = LearnTokensRequest(
                items=[self._item(engine, name) for name in group],
                preset=self._preset,
                link_steps=STEPS,
                seed=seed,
            )
            for name, outcome in zip(group, engine.learn_tokens(request).outcomes, strict=True):
                bundle = outcome.unwrap().bundle
                assert bundle is not None  # one link takes all steps
                (vectors[name],) = load(engine.store.get(bundle)).values()
        return vectors

    def together(self, seed: int) -> dict[str, NDArray[np.floating]]:
        """Learn all classes in one batch."""
        return self.learned(seed, [list(self._pictures)])

    def one_by_one(self, seed: int) -> dict[str, NDArray[np.floating]]:
        """Learn each class in a call of its own."""
        return self.learned(seed, [[name] for name in self._pictures])

    def drawn(self, seed: int, batch: int) -> None:
        """Draw pictures of the classes' names, so many a call."""
        engine, preset = self._engine(), self._suite.generation
        names = list(self._pictures)
        items = [
            GenerateItem(prompt=f"a photo of a {names[place % len(names)]}", seed=PICTURES * seed + place)
            for place in range(PICTURES)
        ]
        for start in range(0, PICTURES, batch):
            some = items[start : start + batch]
            engine.generate(GenerateRequest(items=some, steps=preset.steps, guidance=preset.guidance))

    def _engine(self) -> EditorEngine:
        store = BlobStore(str(self._folder / str(next(self._made))))
        return EditorEngine(self._pipeline, self._suite, store)

    def _item(self, engine: EditorEngine, name: str) -> LearnTokenItem:
        images = [engine.store.put(each) for each in self._pictures[name]]
        return LearnTokenItem(class_name=name, images=images)


def batching_figures(
    suite: EditorSuite, weights: Path, folder: Path, scenes: Mapping[str, Sequence[Scene]]
) -> BatchingFigures:
    """Measure what batches are worth on one thread; ``folder`` takes what is made on the way."""
    folder.mkdir(parents=True, exist_ok=True)
    with _one_thread(), TemporaryDirectory(dir=folder) as work:
        quick = Lessons(suite, weights, Path(work) / "float32", scenes, "float32")
        exact = Lessons(suite, weights, Path(work) / "float64", scenes, "float64")
        return BatchingFigures(
            tokens=times_as_fast(quick.one_by_one, quick.together, ROUNDS),
            tokens_difference=largest_difference(exact.together(0), exact.one_by_one(0)),
            generation=times_as_fast(
                lambda seed: quick.drawn(seed, 1), lambda seed: quick.drawn(seed, PICTURES), ROUNDS
            ),
        )


def times_as_fast(slow: Callable[[int], object], fast: Callable[[int], object], rounds: int) -> Estimate:
    """How many times as fast the second is, a mean over interleaved rounds; each is given its round.

    Counted in processor time: of one thread that is what wall clock would be on an idle machine.
    """
    turns = {"slow": count(1), "fast": count(1)}
    # Once unmeasured: the first call of a kind chooses kernels and fills caches.
    slow(0)
    fast(0)
    laps = interleaved(
        {"slow": lambda: slow(next(turns["slow"])), "fast": lambda: fast(next(turns["fast"]))}, rounds
    )
    found = ratios(laps["slow"]["processor"], laps["fast"]["processor"])
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
