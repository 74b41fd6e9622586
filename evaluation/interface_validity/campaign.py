"""The pieces of an interface's validation in order; each is made when first needed, and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from tqdm import tqdm

from counterpose import ShiftBenchmark
from counterpose_core.contract.dataset_interfaces import TokenItem
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.suite import load_suite
from counterpose_core.types import BlobRef
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.rendered import as_tensor
from evaluation.oracle import Oracle
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity.judging import SEEN, SeenById, decoded
from evaluation.validity.kept import kept, kept_array
from evaluation.validity.roster import SUITE
from evaluation.validity.serving import Service

from .batching import batching_figures
from .fine_grained_images import FineGrained
from .fine_grained_run import fine_grained
from .images import Image, ImageSource
from .order import CLASSES, LEARNED_FROM, TRUTH_FROM, Order
from .report import BatchingFigures
from .run_items import checked, images_of
from .runs import begin_benchmark, begin_interface, finished
from .truth import Predict, Renderings, rendered, true_answers

IMAGE_SOURCES: tuple[ImageSource, ...] = ("token", "class-name")
_BATCHING_IMAGES = 6
"""Images of each class for the measurement of batches."""

_TOKENS = TypeAdapter(list[TokenItem])
_ITEMS = TypeAdapter(list[ImageItem])
_SUMMARY = TypeAdapter(ShiftBenchmarkSummary)
_BATCHING = TypeAdapter(BatchingFigures)
_SECONDS = TypeAdapter(float)


class Campaign:
    """The validation of one stretch, through a stack's gateway."""

    def __init__(self, order: Order, service: Service) -> None:
        self.order, self._service = order, service

    @cached_property
    def _zoo(self) -> Mapping[str, Path]:
        with self._timed("zoo"):
            self.order.train_zoo()
        return self.order.specs

    @cached_property
    def truth(self) -> ModelAnswers:
        """The zoo's answers to the dataset rendered as it is and under each shift."""
        shifts = self.order.shifts
        path = self.order.folder / f"truth-{self.order.truth}-{len(shifts)}.npy"
        scenes = self.order.scenes(TRUTH_FROM, self.order.truth)
        models = {spec: _predict(Predictor(folder)) for spec, folder in self._zoo.items()}
        with self._timed("truth"):
            images: Renderings = kept_array(path, lambda: rendered(scenes, shifts))
            return true_answers(images, CLASSES, shifts, models, CLASSES)

    @cached_property
    def batching(self) -> BatchingFigures:
        """What batches gain; measured before a stack runs on the same machine."""
        scenes = self.order.scenes(LEARNED_FROM, _BATCHING_IMAGES)
        measure = partial(
            batching_figures, load_suite(SUITE).editor, SUITE_WEIGHTS, self.order.folder / "batching", scenes
        )
        with self._timed("batching"):
            return kept(self._interface / "batching.json", _BATCHING, measure)

    @cached_property
    def tokens(self) -> list[TokenItem]:
        """Every class of the dataset interface."""
        with self._timed("dataset interface"):
            return kept(self._interface / "tokens.json", _TOKENS, self._learned)

    def _learned(self) -> list[TokenItem]:
        client, path = self._service.client(), self._interface / "interface.json"
        begin = partial(begin_interface, client, self.order)
        return list(finished(client, path, client.dataset_interfaces, begin).items())

    @cached_property
    def items(self) -> list[ImageItem]:
        """Every image of the shift benchmark, real ones too."""
        assert self.tokens
        with self._timed("shift benchmark"):
            return kept(self._benchmark / "items.json", _ITEMS, self._answered)

    def _answered(self) -> list[ImageItem]:
        client, path = self._service.client(), self._benchmark_id
        interface = (self._interface / "interface.json").read_text(encoding="utf-8").strip('"')
        begin = partial(begin_benchmark, client, self.order, interface)
        run = finished(client, path, client.shift_benchmarks, begin)
        return list(tqdm(run.items(), total=run.run.request_counts.total, desc="collect"))

    @cached_property
    def summary(self) -> ShiftBenchmarkSummary:
        """The gateway's summary of them, with the thresholds in force."""
        assert self.items
        with self._timed("summary"):
            return kept(self._benchmark / "summary.json", _SUMMARY, lambda: self._bench.summary())

    @property
    def images(self) -> list[Image]:
        """Every generated image, with the verdicts of the filter and the oracle."""
        return checked(images_of(self.items, self.seen, self.summary), self.summary)

    @cached_property
    def seen(self) -> SeenById:
        """What the oracle sees in every generated image, by its item's id."""
        made = {item.id: image for item in self.items if (image := _image(item)) is not None}

        def look() -> SeenById:
            fetch = self._bench.image
            pixels = np.stack([decoded(fetch(image)) for image in tqdm(made.values(), desc="fetch")])
            return {name: dict(one) for name, one in zip(made, Oracle.load().attributes(pixels), strict=True)}

        with self._timed("oracle"):
            return kept(self._benchmark / "seen.json", SEEN, look)

    @property
    def _bench(self) -> ShiftBenchmark:
        run_id = self._benchmark_id.read_text(encoding="utf-8").strip('"')
        return self._service.client().shift_benchmarks.get(run_id)

    @cached_property
    def fine_grained(self) -> FineGrained:
        """Buses under codes, learned from one word: a separate dataset."""
        with self._timed("fine-grained"):
            return fine_grained(self.order, self._service)

    def real_features(self) -> dict[str, NDArray[np.float64]]:
        """CLIP features (n, d) of real images that no token was learned from, by class."""
        return self._features("real", self._images("real"))

    def base_features(self) -> dict[ImageSource, dict[str, NDArray[np.float64]]]:
        """CLIP features of both image sources' base images, by class."""
        return {
            image_source: self._features(image_source, self._images(image_source))
            for image_source in IMAGE_SOURCES
        }

    def _images(self, image_source: str) -> dict[str, list[BlobRef]]:
        found: dict[str, list[BlobRef]] = {name: [] for name in CLASSES}
        for item in self.items:
            if (result := item.result) is not None and (result.image_source, result.shift) == (
                image_source,
                BASE,
            ):
                found[item.label].append(result.image)
        return found

    def _features(self, name: str, images: Mapping[str, Sequence[BlobRef]]) -> dict[str, NDArray[np.float64]]:
        flat = [image for each in images.values() for image in each]
        features = kept_array(self._benchmark / f"features-{name}.npy", lambda: self._service.features(flat))
        ends = np.cumsum([len(each) for each in images.values()])
        return dict(zip(images, np.split(features, ends[:-1]), strict=True))

    def seconds(self) -> dict[str, float]:
        """How long each piece took, over all attempts."""
        files = sorted((self.order.folder / "seconds").glob("*.json"))
        return {path.stem: _SECONDS.validate_json(path.read_bytes()) for path in files}

    @property
    def _interface(self) -> Path:
        return self.order.folder / self.order.interface_key()

    @property
    def _benchmark(self) -> Path:
        return self._interface / self.order.benchmark_key()

    @property
    def _benchmark_id(self) -> Path:
        return self._benchmark / "benchmark.json"

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        path = self.order.folder / "seconds" / f"{name}.json"
        before = _SECONDS.validate_json(path.read_bytes()) if path.exists() else 0.0
        began = time.monotonic()
        try:
            yield
        finally:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_SECONDS.dump_json(before + time.monotonic() - began))


def _image(item: ImageItem) -> BlobRef | None:
    """The item's image where it was generated."""
    generated = item.result is not None and item.result.image_source in IMAGE_SOURCES
    return item.result.image if generated and item.result is not None else None


def _predict(network: Predictor) -> Predict:
    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.asarray(network(as_tensor(images)).numpy(), dtype=np.float32)

    return predict
