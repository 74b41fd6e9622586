"""The pieces of an interface's validation in their order; each is made when first asked for, and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from tqdm import tqdm

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.class_prompts import object_caption
from faultline_core.clip_metrics import cosine
from faultline_core.contract.editor import GenerationPreset
from faultline_core.contract.tokens import TextualInversionPreset
from faultline_core.model_answers import ModelAnswers
from faultline_core.shifts import BASE, catalogue
from faultline_core.suite import Suite
from faultline_core.types import BlobRef, Cost
from faultline_miniature.training import zoo
from faultline_miniature.training.classifier_quality import Predictor
from faultline_miniature.training.rendered import as_tensor
from faultline_miniature.world.scene import VALUES, Scene
from faultline_miniature.world.seeds import SeedRange
from faultline_miniature.world.stretches import interface_scenes
from oracle import Oracle
from validation.kept import kept, kept_array

from .in_process import Asked, Engines, Token
from .pictures import Layout, Picture, Source
from .truth import Predict, Renderings, rendered, true_answers
from .world_shifts import BY_NAME, CONDITIONS, WORLD_SHIFTS

CLASSES = VALUES["object_class"]
SOURCES: tuple[Source, ...] = ("token", "class-name")
LEARNED_FROM, THRESHOLDS_FROM, TRUTH_FROM = 0, 1, 2
"""Parts of a stretch of seeds."""

_TOKENS = TypeAdapter(dict[str, Token])
_MADE = TypeAdapter(list[tuple[BlobRef, Cost]])
_SEEN = TypeAdapter(list[dict[str, str]])
_SECONDS = TypeAdapter(float)


@dataclass(frozen=True)
class Order:
    """What is validated: a stretch of a split's seeds, by how many pictures, with which settings."""

    state: Path
    split: SeedRange
    number: int
    preset: TextualInversionPreset
    generation: GenerationPreset
    learned: int = 48
    thresholds: int = 60
    truth: int = 150
    pictures: int = 12
    smoke: bool = False

    @property
    def folder(self) -> Path:
        """Where the pieces of this stretch lie."""
        return self.state / f"{self.split.name}-{self.number}"

    @property
    def made_by(self) -> str:
        """What tokens and pictures hang on."""
        told = (self.preset.model_dump(mode="json"), self.generation.model_dump(mode="json"))
        return str(cache_key(settings=told, learned=self.learned, pictures=self.pictures)[:12])


class Campaign:
    """One stretch's validation."""

    def __init__(self, order: Order, suite: Suite) -> None:
        self.order = order
        self.engines = Engines(suite, BlobStore(str(order.state / "blobs")))

    @cached_property
    def models(self) -> dict[str, Predict]:
        """The zoo, trained on the dataset's pictures of classifiers' own seeds."""
        folder = self.order.state / f"zoo-{self.order.number}"
        given = ["--seed", str(1 + self.order.number), "--out", str(folder)]
        given += ["--work", str(folder / "work"), *(["--smoke"] if self.order.smoke else [])]
        with self._timed("zoo"):
            zoo.main(given)
        return {member.name: _predict(Predictor(folder / member.name)) for member in zoo.MEMBERS}

    @property
    def layout(self) -> Layout:
        """How tables are laid out."""
        return Layout(CONDITIONS, CLASSES, tuple(self.models))

    def scenes(self, part: int, per_class: int) -> dict[str, list[Scene]]:
        """Scenes of a part of the stretch, by class."""
        found: dict[str, list[Scene]] = {name: [] for name in CLASSES}
        for scene in interface_scenes(self.order.split, self.order.number, per_class, part=part):
            found[scene.object_class].append(scene)
        return found

    @cached_property
    def truth(self) -> ModelAnswers:
        """What the zoo answers to the dataset rendered as it is and under each shift."""
        path = self.order.folder / f"truth-{self.order.truth}.npy"
        scenes = self.scenes(TRUTH_FROM, self.order.truth)
        with self._timed("truth"):
            pictures: Renderings = kept_array(path, lambda: rendered(scenes, WORLD_SHIFTS))
            return true_answers(pictures, CLASSES, WORLD_SHIFTS, self.models, CLASSES)

    @cached_property
    def tokens(self) -> dict[str, Token]:
        """A token of each class."""
        scenes = self.scenes(LEARNED_FROM, self.order.learned)

        def learn() -> dict[str, Token]:
            images = {name: self.engines.put(each) for name, each in scenes.items()}
            return self.engines.learn(images, self.order.preset, self.order.number)

        with self._timed("tokens"):
            return kept(self._path("tokens.json"), _TOKENS, learn)

    @cached_property
    def pictures(self) -> list[Picture]:
        """Every picture of both sources, judged."""
        found: list[Picture] = []
        for source in SOURCES:
            for condition in tqdm(CONDITIONS, desc=source):
                found += self._pictures(source, condition)
        return found

    def _pictures(self, source: Source, condition: str) -> list[Picture]:
        prompt = catalogue().base if condition == BASE else BY_NAME[condition].shift.prompt
        asked = [
            Asked(name, prompt, place, self.tokens[name].bundle if source == "token" else None)
            for name in CLASSES
            for place in range(self.order.pictures)
        ]
        name = f"{source}-{CONDITIONS.index(condition)}"
        generate = partial(self.engines.generate, asked, self.order.generation, self.order.number)
        with self._timed(f"pictures {source}"):
            made = kept(self._path(f"{name}-made.json"), _MADE, generate)
        images = [image for image, _ in made]
        pixels = self.engines.pixels(images)
        seen = kept(self._path(f"{name}-seen.json"), _SEEN, lambda: self._oracle.attributes(pixels))
        to_object, to_shift = self._similarities(asked, images, condition)
        right = {
            model: predict(pixels).argmax(axis=1) == [CLASSES.index(one.class_name) for one in asked]
            for model, predict in self.models.items()
        }
        return [
            Picture(
                id=f"{name}-{row}",
                source=source,
                class_name=one.class_name,
                shift=condition,
                seed=one.place,
                to_object=float(to_object[row]),
                to_shift=float(to_shift[row]),
                right={model: bool(answers[row]) for model, answers in right.items()},
                seen=seen[row],
                image=made[row][0],
                cost=made[row][1],
            )
            for row, one in enumerate(asked)
        ]

    @cached_property
    def _oracle(self) -> Oracle:
        return Oracle.load()

    def _similarities(
        self, asked: list[Asked], images: list[BlobRef], condition: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        features = self.engines.features(images)
        photo = condition == BASE or not BY_NAME[condition].shift.is_style
        words = {name: object_caption(name, photo=photo) for name in CLASSES}
        texts = self.engines.text_features([words[one.class_name] for one in asked])
        caption = words[CLASSES[0]] if condition == BASE else BY_NAME[condition].shift.caption
        shift = self.engines.text_features([caption])
        return cosine(features, texts), cosine(features, np.broadcast_to(shift, features.shape))

    @cached_property
    def real_features(self) -> dict[str, NDArray[np.float64]]:
        """CLIP's features (n, d) of real pictures that no token was learned from, by class."""
        scenes = self.scenes(THRESHOLDS_FROM, self.order.thresholds)
        return {name: self.engines.features(self.engines.put(each)) for name, each in scenes.items()}

    def real_similarities(self, *, photo: bool) -> dict[str, NDArray[np.float64]]:
        """Cosines of those pictures with their class's caption."""
        texts = self.engines.text_features([object_caption(name, photo=photo) for name in CLASSES])
        return {
            name: cosine(features, np.broadcast_to(text, features.shape))
            for (name, features), text in zip(self.real_features.items(), texts, strict=True)
        }

    def base_features(self) -> Mapping[Source, dict[str, NDArray[np.float64]]]:
        """CLIP's features of both sources' base pictures, by class."""
        return {
            source: {
                name: self.engines.features(
                    [
                        one.image
                        for one in self.pictures
                        if (one.source, one.shift, one.class_name) == (source, BASE, name)
                    ]
                )
                for name in CLASSES
            }
            for source in SOURCES
        }

    def seconds(self) -> dict[str, float]:
        """How long each piece took, over all attempts."""
        files = sorted((self.order.folder / "seconds").glob("*.json"))
        return {path.stem: _SECONDS.validate_json(path.read_bytes()) for path in files}

    def _path(self, name: str) -> Path:
        return self.order.folder / self.order.made_by / name

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


def _predict(network: Predictor) -> Predict:
    def predict(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.asarray(network(as_tensor(pictures)).numpy(), dtype=np.float32)

    return predict
