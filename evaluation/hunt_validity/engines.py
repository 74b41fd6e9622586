"""The product's services in this process, with images and captions that are made once and kept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.captioner import (
    Caption,
    CaptionRequest,
    CaptionResponse,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from counterpose_core.contract.classifiers import ClassifierList, ClassifyRequest, ClassifyResponse
from counterpose_core.contract.editor import GeneratedImage, GenerateRequest, GenerateResponse
from counterpose_core.contract.perturber import PerturbRequest, PerturbResponse
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from counterpose_core.suite import Suite
from counterpose_gateway.services.ports import Services
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.paths import SUITE_WEIGHTS


class Kept:
    """Answers by key, appended to one file that several processes may write; a cut line is left out."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self.known = path, 0, dict[str, Any]()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have added."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                try:
                    key, value = json.loads(line)
                except ValueError:
                    continue
                self.known[key] = value

    def get(self, key: str) -> Any | None:
        """The answer, or None."""
        return self.known.get(key)

    def add(self, answers: dict[str, Any]) -> None:
        """Keep answers; one write, so that lines of two processes do not mix."""
        text = "".join(json.dumps([key, value]) + "\n" for key, value in answers.items())
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
        self.known |= answers


@dataclass
class _Editor:
    engine: EditorEngine
    kept: Kept

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        settings = request.model_dump(mode="json", exclude={"items"})
        keys = [cache_key(settings=settings, item=item.model_dump(mode="json")) for item in request.items]
        missing = [index for index, key in enumerate(keys) if self.kept.get(key) is None]
        answered: dict[int, Outcome[GeneratedImage]] = {}
        if missing:
            part = request.model_copy(update={"items": [request.items[index] for index in missing]})
            made = self.engine.generate(part).outcomes
            answered = dict(zip(missing, made, strict=True))
            self.kept.add(
                {
                    keys[index]: one.value.model_dump(mode="json")
                    for index, one in answered.items()
                    if one.value
                }
            )
        outcomes = [
            answered[index] if index in answered
            else Outcome[GeneratedImage](value=GeneratedImage.model_validate(self.kept.get(key)))
            for index, key in enumerate(keys)
        ]  # fmt: skip
        return GenerateResponse(outcomes=outcomes, model=self.engine.identity)


@dataclass
class _Captioner:
    engine: CaptionerEngine
    kept: Kept

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        keys = [cache_key(item=item.model_dump(mode="json")) for item in request.items]
        missing = [index for index, key in enumerate(keys) if self.kept.get(key) is None]
        if missing:
            part = CaptionRequest(items=[request.items[index] for index in missing])
            made = [one.unwrap().model_dump(mode="json") for one in self.engine.caption(part).outcomes]
            self.kept.add({keys[index]: one for index, one in zip(missing, made, strict=True)})
        captions = [Caption.model_validate(self.kept.get(key)) for key in keys]
        return CaptionResponse(
            outcomes=[Outcome[Caption](value=one) for one in captions], model=self.engine.identity
        )

    async def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        return self.engine.log_likelihood(request)


@dataclass
class _Perturber:
    engine: PerturberEngine

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        return self.engine.perturb(request)


@dataclass
class _Scorer:
    engine: ScorerEngine

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        return self.engine.embed_images(request)

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        return self.engine.embed_texts(request)


@dataclass
class _Classifiers:
    engine: ClassifiersEngine

    async def list_classifiers(self) -> ClassifierList:
        return self.engine.list_classifiers()

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        return self.engine.classify(request)


@dataclass(frozen=True)
class Engines:
    """The services, the store of their images, and what they keep."""

    services: Services
    store: BlobStore
    kept: Sequence[Kept]

    def refresh(self) -> None:
        """Read what other processes have made."""
        for each in self.kept:
            each.refresh()


def load_engines(suite: Suite, models: Path, state: Path) -> Engines:
    """Load the suite's models, and the classifiers of the folder ``models`` by `local:` names."""
    store = BlobStore(str(state / "store"))
    images, captions = Kept(state / "images.jsonl"), Kept(state / "captions.jsonl")
    options = ClassifierOptions(models_folder=models)
    root = SUITE_WEIGHTS
    perturber = suite.perturber
    assert perturber is not None
    # A hunt asks no more of the services than these verbs.
    services = Services(
        captioner=cast(Any, _Captioner(CaptionerEngine.load(suite.captioner, root, store), captions)),
        perturber=cast(Any, _Perturber(PerturberEngine.load(perturber, root))),
        editor=cast(Any, _Editor(EditorEngine.load(suite.editor, root, store), images)),
        scorer=cast(Any, _Scorer(ScorerEngine.load(suite.scorer, root, store))),
        classifiers=cast(Any, _Classifiers(ClassifiersEngine.load(suite.classifiers, root, store, options))),
    )
    return Engines(services, store, (images, captions))
