"""A dataset interface and its benchmark's pictures by the engines alone, without gateway or services.

What the runs of the gateway do, in the same order and by the same functions: for choosing settings on
development seeds, and for a validation where no stack shall be started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.class_captions import class_captions
from faultline_core.class_prompts import fill
from faultline_core.class_slot import CLASS_SLOT
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.editor import GenerateItem, GenerateRequest, GenerationPreset
from faultline_core.contract.scorer import EmbedImagesRequest, EmbedTextsRequest
from faultline_core.contract.tokens import (
    LearnedToken,
    LearnTokenItem,
    LearnTokensRequest,
    TextualInversionPreset,
)
from faultline_core.images import decode_image, encode_raw
from faultline_core.suite import Suite
from faultline_core.types import BlobRef, Cost
from faultline_miniature.world.renderer import render
from faultline_miniature.world.scene import Scene
from faultline_services.captioner.engine import CaptionerEngine
from faultline_services.editor.engine import EditorEngine
from faultline_services.scorer.engine import ScorerEngine
from validation.roster import SUITE_WEIGHTS

T = TypeVar("T")

_AT_ONCE = 48
_LINK_STEPS = 25


@dataclass(frozen=True)
class Token:
    """A learned class: its bundle, its own words in captions, and what learning it took."""

    bundle: BlobRef
    own: tuple[str, ...]
    cost: Cost


@dataclass(frozen=True)
class Asked:
    """A picture that is wanted: of a class by its token or, without one, by its name."""

    class_name: str
    prompt: str
    place: int
    token: BlobRef | None = None

    def item(self, seed: int) -> GenerateItem:
        """As the editor is asked: the noise hangs on seed, class and place alone."""
        noise = int(cache_key(seed=seed, label=self.class_name, place=self.place)[:15], 16)
        if self.token is not None:
            return GenerateItem(
                prompt=fill(self.prompt, CLASS_SLOT, token=True), seed=noise, token=self.token
            )
        return GenerateItem(prompt=fill(self.prompt, self.class_name), seed=noise)


class Engines:
    """The suite's captioner, editor and scorer in this process; each is loaded when it is first asked."""

    def __init__(self, suite: Suite, store: BlobStore) -> None:
        self.suite, self.store = suite, store
        self._editor: EditorEngine | None = None
        self._scorer: ScorerEngine | None = None

    @property
    def editor(self) -> EditorEngine:
        """The editor."""
        if self._editor is None:
            self._editor = EditorEngine.load(self.suite.editor, SUITE_WEIGHTS, self.store)
        return self._editor

    @property
    def scorer(self) -> ScorerEngine:
        """The scorer."""
        if self._scorer is None:
            self._scorer = ScorerEngine.load(self.suite.scorer, SUITE_WEIGHTS, self.store)
        return self._scorer

    def put(self, scenes: Iterable[Scene]) -> list[BlobRef]:
        """Render scenes into the store."""
        return [self.store.put(encode_raw(render(scene))) for scene in scenes]

    def captions(self, images: Sequence[BlobRef]) -> list[str]:
        """Caption pictures as a dataset interface does: without their labels."""
        captioner = CaptionerEngine.load(self.suite.captioner, SUITE_WEIGHTS, self.store)
        found: list[str] = []
        for some in _chunks(images):
            answer = captioner.caption(CaptionRequest(items=[CaptionItem(image=each) for each in some]))
            found += [outcome.unwrap().text for outcome in answer.outcomes]
        return found

    def learn(
        self, images: Mapping[str, Sequence[BlobRef]], preset: TextualInversionPreset, seed: int
    ) -> dict[str, Token]:
        """Learn all classes beside each other, link by link; links that were made before cost nothing."""
        captions = {name: self.captions(refs) for name, refs in images.items()}
        found = class_captions(captions)
        items = [
            LearnTokenItem(
                class_name=name,
                images=list(refs),
                prompts=[prompt or preset.templates.prompts[0] for prompt in found[name].prompts],
            )
            for name, refs in images.items()
        ]
        costs = dict.fromkeys(images, Cost())
        while True:
            request = LearnTokensRequest(items=items, preset=preset, link_steps=_LINK_STEPS, seed=seed)
            links = [outcome.unwrap() for outcome in self.editor.learn_tokens(request).outcomes]
            for link in links:
                costs[link.class_name] += link.cost
            bundles = _bundles(links)
            if len(bundles) == len(items):
                return {name: Token(bundle, found[name].own, costs[name]) for name, bundle in bundles.items()}
            items = [
                item.model_copy(update={"checkpoint": link.checkpoint})
                for item, link in zip(items, links, strict=True)
            ]

    def generate(
        self, asked: Sequence[Asked], generation: GenerationPreset, seed: int
    ) -> list[tuple[BlobRef, Cost]]:
        """Make pictures; each with what it took."""
        made: list[tuple[BlobRef, Cost]] = []
        for some in _chunks(asked):
            request = GenerateRequest(
                items=[each.item(seed) for each in some], **generation.model_dump(exclude_none=True)
            )
            answer = self.editor.generate(request)
            pictures = [outcome.unwrap() for outcome in answer.outcomes]
            # Seconds are booked by the call: no picture of a batch has seconds of its own.
            share = answer.cost.seconds / len(pictures)
            made += [(each.image, each.cost.model_copy(update={"seconds": share})) for each in pictures]
        return made

    def pixels(self, images: Iterable[BlobRef]) -> NDArray[np.uint8]:
        """Pictures of the store, uint8 (n, height, width, 3)."""
        return np.stack([decode_image(self.store.get(image)) for image in images])

    def features(self, images: Sequence[BlobRef]) -> NDArray[np.float64]:
        """CLIP's features (n, d) of pictures."""
        found: list[list[float]] = []
        for some in _chunks(images):
            answer = self.scorer.embed_images(EmbedImagesRequest(images=list(some)))
            found += [outcome.unwrap().vector for outcome in answer.outcomes]
        return np.array(found)

    def text_features(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """CLIP's features (n, d) of texts."""
        answer = self.scorer.embed_texts(EmbedTextsRequest(texts=list(texts), encoder="clip"))
        return np.array([outcome.unwrap().vector for outcome in answer.outcomes])


def _bundles(links: Iterable[LearnedToken]) -> dict[str, BlobRef]:
    return {link.class_name: link.bundle for link in links if link.bundle is not None}


def _chunks(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE)]
