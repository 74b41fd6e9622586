"""Engines that answer from their requests alone; they stand for the real ones in tests of the Serve shims.

Given a store they read it: an image that is not there is that item's problem, as with the real ones,
and what they draw is put there. Without one, every image is taken to be there.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import (
    captioner,
    classifiers,
    editor,
    judges,
    perturber,
    preservation,
    scorer,
    tokens,
)
from counterpose_core.contract.base import ModelIdentity, Outcome, Problem
from counterpose_core.contract.editor_backends import CAPABILITIES
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest, rotations
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import (
    Cancelled,
    CounterposeError,
    DatasetEmpty,
    InvalidRequest,
    PromptTooLong,
    UnknownModel,
)
from counterpose_core.images.codecs import encode_raw
from counterpose_core.types import Cost, Estimate

IDENTITY = ModelIdentity(id="fake", revision="0" * 64)
MOST_WORDS = 40
"""A longer text does not fit a fake, as none fits a real text encoder for ever."""

Item = TypeVar("Item")
Value = TypeVar("Value")


class _Fake:
    identity = IDENTITY

    def __init__(self, store: BlobStore | None = None) -> None:
        self.store = store

    def _look(self, *images: str) -> None:
        for image in images:
            if self.store is not None:
                self.store.get(image)

    def _draw(self, *told: object) -> str:
        """Make an image of its own for everything that is told, and return its reference."""
        draws = np.random.default_rng(_number(*told))
        pixels = draws.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        encoded = encode_raw(pixels)
        return hashlib.sha256(encoded).hexdigest() if self.store is None else self.store.put(encoded)


def _number(*told: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(told).encode()).digest()[:6])


def _each(items: Sequence[Item], answer: Callable[[Item], Value]) -> list[Outcome[Value]]:
    outcomes: list[Outcome[Value]] = []
    for item in items:
        try:
            outcomes.append(Outcome(value=answer(item)))
        except CounterposeError as error:
            outcomes.append(Outcome(problem=Problem.of(error)))
    return outcomes


def _read(text: str) -> str:
    if len(text.split()) > MOST_WORDS:
        raise PromptTooLong(f"more than {MOST_WORDS} words")
    return text


class FakeScorer(_Fake):
    """Scores by the length of captions; can be held up until ``go_on`` is set."""

    def __init__(self, store: BlobStore | None = None) -> None:
        super().__init__(store)
        self.batches: list[int] = []
        self.started, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    def score(self, request: scorer.ScoreRequest) -> scorer.ScoreResponse:
        self.batches.append(len(request.items))
        self.started.set()
        self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        outcomes = _each(request.items, self._measure)
        return scorer.ScoreResponse(outcomes=outcomes, model=IDENTITY, cost=Cost(clip_passes=len(outcomes)))

    def _measure(self, item: scorer.ScoreItem) -> scorer.EditScores:
        self._look(item.original, item.edited)
        value = len(_read(item.caption)) / 1000
        return scorer.EditScores(
            direction=value,
            image_image=value,
            text_original=value,
            text_edited=value,
            text_edited_source=value,
            text_original_edit=value,
            words_added=value if item.added else None,
            words_removed=value if item.removed else None,
        )

    def embed_images(self, request: scorer.EmbedImagesRequest) -> scorer.EmbedResponse:
        def embed(image: str) -> scorer.Embedding:
            self._look(image)
            return _turned(image)

        return scorer.EmbedResponse(outcomes=_each(request.images, embed), model=IDENTITY)

    def embed_texts(self, request: scorer.EmbedTextsRequest) -> scorer.EmbedResponse:
        outcomes = _each(request.texts, lambda text: _turned(_read(text)))
        return scorer.EmbedResponse(outcomes=outcomes, model=IDENTITY)

    def fill_mask(self, request: scorer.FillMaskRequest) -> scorer.FillMaskResponse:
        return scorer.FillMaskResponse(outcomes=_each(request.items, _filled), model=IDENTITY)

    def preservation(self, request: preservation.PreservationRequest) -> preservation.PreservationResponse:
        def measure(item: preservation.PreservationItem) -> preservation.Preservation:
            self._look(item.original, item.edited)
            return preservation.Preservation(
                control=item.control, faults=[], size_ratio=(1.0, 1.0), map=item.edited
            )

        return preservation.PreservationResponse(outcomes=_each(request.items, measure), model=IDENTITY)

    def judge(self, request: judges.JudgeRequest) -> judges.JudgeResponse:
        def judge(item: judges.JudgeItem) -> judges.Judgement:
            self._look(item.original, item.edited)
            return judges.Judgement(verdict="yes", detail=request.judge)

        return judges.JudgeResponse(outcomes=_each(request.items, judge), model=IDENTITY)

    def segment(self, request: scorer.SegmentRequest) -> scorer.SegmentResponse:
        def outline(item: scorer.SegmentItem) -> scorer.Segment:
            self._look(item.image)
            return scorer.Segment(mask=item.image, share=0.5)

        return scorer.SegmentResponse(outcomes=_each(request.items, outline), model=IDENTITY)


def _turned(told: str) -> scorer.Embedding:
    """Return a unit vector of two numbers."""
    angle = float(_number(told))
    return scorer.Embedding(vector=[float(np.cos(angle)), float(np.sin(angle))])


def _filled(item: scorer.FillMaskItem) -> scorer.FilledMask:
    words = _read(item.text).split()
    if item.position >= len(words):
        raise InvalidRequest(f"no word at position {item.position}")
    offered = [word for word in ("boat", "tram", "sled", "snow", "sea") if word != words[item.position]]
    start = item.seed % len(offered)
    chosen = (offered[start:] + offered[:start])[: item.n]
    return scorer.FilledMask(words=chosen, probabilities=[0.2] * len(chosen))


class FakeCaptioner(_Fake):
    """Captions by label."""

    def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse:
        return captioner.CaptionResponse(outcomes=_each(request.items, self._caption), model=IDENTITY)

    def _caption(self, item: captioner.CaptionItem) -> captioner.Caption:
        self._look(item.image)
        return captioner.Caption(text=f"a {item.label}", log_likelihood=-1.0, tokens=2)

    def log_likelihood(self, request: captioner.LogLikelihoodRequest) -> captioner.LogLikelihoodResponse:
        return captioner.LogLikelihoodResponse(outcomes=_each(request.items, self._weigh), model=IDENTITY)

    def _weigh(self, item: captioner.LogLikelihoodItem) -> captioner.LogLikelihood:
        self._look(item.image)
        return captioner.LogLikelihood(total=-float(len(_read(item.text))), tokens=len(item.text.split()))


class FakePerturber(_Fake):
    """Puts another word in front of the caption for every edit, beginning where the seed says."""

    def __init__(self, store: BlobStore | None = None) -> None:
        super().__init__(store)
        self.batches: list[int] = []

    def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse:
        self.batches.append(len(request.items))
        return perturber.PerturbResponse(outcomes=_each(request.items, _proposed), model=IDENTITY)

    def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse:
        return perturber.LikelihoodsResponse(outcomes=_each(request.texts, _weighed), model=IDENTITY)


def _weighed(text: str) -> perturber.TextLikelihood:
    return perturber.TextLikelihood(nats=-float(len(_read(text))), tokens=len(text.split()))


def _proposed(item: perturber.PerturbItem) -> perturber.Perturbations:
    texts = [f"word{item.seed + number} {_read(item.caption)}" for number in range(item.n)]
    return perturber.Perturbations(
        edits=[perturber.CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts]
    )


class FakeClassifiers(_Fake):
    """Knows one classifier that is always sure of the first class."""

    def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse:
        if request.classifier != "sure":
            raise UnknownModel(f"no classifier is named {request.classifier!r}")

        def predict(image: str) -> classifiers.Prediction:
            self._look(image)
            rest = range(1, len(request.classes))
            return classifiers.Prediction(probabilities=[1.0, *(0.0 for _ in rest)], top=[0, *rest][:5])

        return classifiers.ClassifyResponse(outcomes=_each(request.images, predict), model=IDENTITY)

    def is_loaded(self, spec: str, function: str | None) -> bool:
        """Nothing has to be loaded."""
        return True

    def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription:
        if request.classifier != "sure":
            raise UnknownModel(f"no classifier is named {request.classifier!r}")
        return classifiers.ClassifierDescription(name="sure", spec="sure", parameters=7)

    def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """The same in every order."""
        orders = len(rotations(len(request.classes)))
        same = Estimate(estimate=0.0, low=0.0, high=0.5, n=len(request.images))
        return OrderEffect(orders=orders, changes=same, even=1 / len(request.classes))

    def list_classifiers(self) -> classifiers.ClassifierList:
        return classifiers.ClassifierList(
            classifiers=[classifiers.ClassifierDescription(name="sure", spec="sure")]
        )


class FakeEditor(_Fake):
    """Takes its steps one by one, polling before each; every step waits until ``go_on`` is set.

    ``begun`` counts the calls that began, ``ended`` is set when one was cancelled.
    """

    capabilities = CAPABILITIES["prompt-to-prompt"]

    def __init__(self, store: BlobStore | None = None) -> None:
        super().__init__(store)
        self.begun = 0
        self._texts: dict[str, str] = {}
        self.started, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.go_on.set()

    def rows(self) -> tuple[int, int]:
        return self.begun, 2 * self.begun

    def reconstruct(
        self, request: editor.ReconstructRequest, *, cancelled: Callable[[], bool]
    ) -> editor.ReconstructResponse:
        self._walk(PromptToPromptPreset.of(request.preset).steps, cancelled)

        def redraw(item: editor.ReconstructItem) -> editor.Reconstruction:
            self._look(item.image)
            return editor.Reconstruction(image=self._draw(item.image, _read(item.caption)), psnr_db=30.0)

        return editor.ReconstructResponse(outcomes=_each(request.items, redraw), model=IDENTITY)

    def edit(self, request: editor.EditRequest, *, cancelled: Callable[[], bool]) -> editor.EditResponse:
        self._walk(PromptToPromptPreset.of(request.preset).steps, cancelled)

        def redraw(item: editor.EditItem) -> editor.EditedImage:
            self._look(item.image)
            told = (item.image, _read(item.caption), _read(item.edited_caption))
            sweep = request.values
            return editor.EditedImage(
                variants=[
                    editor.EditVariant(strength=value, image=self._draw(*told, value)) for value in sweep
                ]
            )

        return editor.EditResponse(outcomes=_each(request.items, redraw), model=IDENTITY)

    def generate(
        self, request: editor.GenerateRequest, *, cancelled: Callable[[], bool]
    ) -> editor.GenerateResponse:
        self._walk(request.steps, cancelled)

        def draw(item: editor.GenerateItem) -> editor.GeneratedImage:
            return editor.GeneratedImage(image=self._draw(_read(item.prompt), item.seed))

        return editor.GenerateResponse(outcomes=_each(request.items, draw), model=IDENTITY)

    def learn_tokens(
        self, request: tokens.LearnTokensRequest, *, cancelled: Callable[[], bool]
    ) -> tokens.LearnTokensResponse:
        """Write the steps taken into the checkpoint; the bundle's bytes name the class."""
        self._walk(request.link_steps, cancelled)

        def learn(item: tokens.LearnTokenItem) -> tokens.LearnedToken:
            dropped = [each for image in item.images if (each := self._dropped(image)) is not None]
            if len(dropped) == len(item.images):
                raise DatasetEmpty(f"the class {item.class_name!r} has no image")
            begun = 0 if item.checkpoint is None else int(self._written(item.checkpoint).rpartition(":")[2])
            steps = min(begun + request.link_steps, request.preset.steps)
            told = f"{item.class_name}:{sorted(item.images)}:{request.seed}"
            return tokens.LearnedToken(
                class_name=item.class_name,
                steps=steps,
                checkpoint=self._write(f"{told}:{steps}"),
                bundle=self._write(told) if steps == request.preset.steps else None,
                losses=[1 / (1 + step) for step in range(begun, steps)],
                images=len(item.images) - len(dropped),
                dropped=dropped,
            )

        return tokens.LearnTokensResponse(outcomes=_each(request.items, learn), model=IDENTITY)

    def _dropped(self, image: str) -> tokens.DroppedImage | None:
        try:
            self._look(image)
        except CounterposeError as error:
            return tokens.DroppedImage(image=image, problem=Problem.of(error))
        return None

    def _write(self, text: str) -> str:
        data = text.encode()
        self._texts[hashlib.sha256(data).hexdigest()] = text
        return hashlib.sha256(data).hexdigest() if self.store is None else self.store.put(data)

    def _written(self, ref: str) -> str:
        return self._texts[ref] if self.store is None else self.store.get(ref).decode()

    def _walk(self, steps: int, cancelled: Callable[[], bool]) -> None:
        self.begun += 1
        self.started.set()
        for _ in range(steps):
            while not self.go_on.wait(0.001) and not cancelled():
                pass
            if cancelled():
                self.ended.set()
                raise Cancelled("cancelled between two steps")
