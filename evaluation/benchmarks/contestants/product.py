"""Counterpose's editor as its service runs it: requests in, images and their cost out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    EditResponse,
    EditVariant,
    GenerateItem,
    GenerateRequest,
    GenerateResponse,
    ReconstructItem,
    ReconstructRequest,
    ReconstructResponse,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import encode_raw
from counterpose_core.stress_test.sweep import rounds
from counterpose_core.suite import EditorSuite
from counterpose_core.types import Cost
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from evaluation.benchmarks.contestants.judge import Judge
from evaluation.benchmarks.workload import Workload


class Product:
    """Each call uses a new store, so nothing is cached between repetitions."""

    def __init__(self, suite: EditorSuite, pipeline: Pipeline) -> None:
        self._suite, self._pipeline = suite, pipeline

    def edit(self, work: Workload, preset: PromptToPromptPreset) -> EditResponse:
        """Make all edits of all images in one request."""
        with tempfile.TemporaryDirectory() as folder:
            engine = self._engine(folder)
            return engine.edit(EditRequest(items=_items(engine, work), preset=preset))

    def edit_lazily(self, work: Workload, preset: PromptToPromptPreset, judge: Judge) -> Cost:
        """Try the sweep from its largest value down; each edit stops at its first image that passes."""
        with tempfile.TemporaryDirectory() as folder:
            engine, cost = self._engine(folder), Cost()
            trying = _items(engine, work)
            for values in rounds(preset.sweep, preset.level, "released"):
                response = engine.edit(EditRequest(items=trying, preset=preset, strength=values))
                cost += response.cost
                made = [outcome.unwrap().variants for outcome in response.outcomes]
                trying = [
                    item
                    for item, variants in zip(trying, made, strict=True)
                    if not _any_passes(engine, item, variants, judge)
                ]
                if not trying:
                    break
            return cost

    def reconstruct(self, work: Workload, preset: PromptToPromptPreset) -> ReconstructResponse:
        """Invert and reconstruct all images."""
        with tempfile.TemporaryDirectory() as folder:
            engine = self._engine(folder)
            items = [
                ReconstructItem(image=engine.store.put(encode_raw(image)), caption=caption)
                for image, caption in zip(work.images, work.captions, strict=True)
            ]
            return engine.reconstruct(ReconstructRequest(items=items, preset=preset))

    def generate(self, prompts: Sequence[str], *, steps: int, guidance: float) -> GenerateResponse:
        """Make one image a prompt."""
        with tempfile.TemporaryDirectory() as folder:
            items = [GenerateItem(prompt=prompt, seed=seed) for seed, prompt in enumerate(prompts)]
            request = GenerateRequest(items=items, steps=steps, guidance=guidance)
            return self._engine(folder).generate(request)

    def _engine(self, folder: str) -> EditorEngine:
        return EditorEngine(self._pipeline, self._suite, BlobStore(folder))


def _items(engine: EditorEngine, work: Workload) -> list[EditItem]:
    return [
        EditItem(image=engine.store.put(encode_raw(image)), caption=caption, edited_caption=edited)
        for image, caption, captions in zip(work.images, work.captions, work.edited_captions, strict=True)
        for edited in captions
    ]


def _any_passes(engine: EditorEngine, item: EditItem, variants: Sequence[EditVariant], judge: Judge) -> bool:
    source, images = engine.store.get(item.image), [engine.store.get(one.image) for one in variants]
    return any(judge.passes(source, item.caption, item.edited_caption, images))
