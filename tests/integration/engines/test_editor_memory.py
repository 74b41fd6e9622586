"""Requests larger than memory are processed in smaller batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fakes.tiny_pipeline import RESOLUTION, SUITE, tiny_unet

# isort: split
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import LearnTokensRequest, TextualInversionPreset
from counterpose_core.editing.denoiser import AttentionControl
from counterpose_core.errors import ResourceExhausted
from counterpose_core.images.codecs import encode_png
from counterpose_core.types import Decoder, Inversion
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from counterpose_services.editor.tokens.files import TokenBundle, unpack_bundle
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images
from evaluation.reference.same_tokens import is_same_token

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
PRESET = PromptToPromptPreset(steps=3, guidance=2.0, self_replace=(0.4, 0.7), inner_steps=2)


class SmallCard(UNetDenoiser):
    """A UNet on a card with room for ``rows`` samples, and for half of them with their gradient."""

    def __init__(self, rows: int) -> None:
        super().__init__(tiny_unet())
        self.rows = rows
        self.largest = 0

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        rows = latents.shape[0] * (2 if text.requires_grad else 1)
        if rows > self.rows:
            raise torch.OutOfMemoryError(f"tried to allocate {rows} samples")
        self.largest = max(self.largest, rows)
        return super().__call__(latents, timestep, text, control)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def engine(pipeline: Pipeline, store: BlobStore, *, batch: int, rows: int = 1000) -> EditorEngine:
    # A folder for each, or the second would use the cached inversions of the first.
    own = BlobStore(f"{store.root}/{batch}-{rows}")
    card = replace(pipeline, denoiser=SmallCard(rows))
    return EditorEngine(card, SUITE.model_copy(update={"batch": batch}), own)


def put_images(engine: EditorEngine, count: int) -> list[str]:
    drawn = np.random.default_rng(0).integers(0, 256, (count, RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def reconstructed(engine: EditorEngine, inversion: Inversion) -> Levels:
    items = [contract.ReconstructItem(image=image, caption=CAPTION) for image in put_images(engine, 4)]
    preset = PRESET.model_copy(update={"inversion": inversion})
    response = engine.reconstruct(contract.ReconstructRequest(items=items, preset=preset))
    return stored_images(engine.store, [outcome.unwrap().image for outcome in response.outcomes])


def edited(engine: EditorEngine, count: int = 4) -> Levels:
    items = [
        contract.EditItem(image=image, caption=CAPTION, edited_caption=EDITED)
        for image in put_images(engine, count)
    ]
    outcomes = engine.edit(contract.EditRequest(items=items, preset=PRESET)).outcomes
    variants = [variant for outcome in outcomes for variant in outcome.unwrap().variants]
    return stored_images(engine.store, [variant.image for variant in variants])


def generated(engine: EditorEngine) -> Levels:
    items = [contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in range(5)]
    response = engine.generate(contract.GenerateRequest(items=items, steps=2, guidance=2.0))
    return stored_images(engine.store, [outcome.unwrap().image for outcome in response.outcomes])


def learned(engine: EditorEngine) -> list[TokenBundle]:
    preset = TextualInversionPreset(steps=3, batch=3)
    items = [
        {"class_name": name, "initialiser": "bus", "images": put_images(engine, count)}
        for name, count in (("boat", 3), ("sled", 2))
    ]
    request = LearnTokensRequest.model_validate({"items": items, "preset": preset, "seed": 1})
    bundles = [outcome.unwrap().bundle for outcome in engine.learn_tokens(request).outcomes]
    return [unpack_bundle(engine.store.get(ref)) for ref in bundles if ref is not None]


@pytest.mark.parametrize(("inversion", "rows"), [("direct", 2), ("negative-prompt", 2), ("null-text", 4)])
def test_inversions_that_run_out_of_memory_use_smaller_batches(
    pipeline: Pipeline, store: BlobStore, inversion: Inversion, rows: int
) -> None:
    small = reconstructed(engine(pipeline, store, batch=4, rows=rows), inversion)
    assert levels_apart(small, reconstructed(engine(pipeline, store, batch=2), inversion)) <= LEVELS


def test_edits_that_run_out_of_memory_use_smaller_calls(pipeline: Pipeline, store: BlobStore) -> None:
    # A call has two rows for each of eight samples, then for four when these did not fit.
    small = engine(pipeline, store, batch=8, rows=12)
    assert levels_apart(edited(small), edited(engine(pipeline, store, batch=4))) <= LEVELS
    assert isinstance(small.pipeline.denoiser, SmallCard)
    assert small.pipeline.denoiser.largest > 6


def test_generation_that_runs_out_of_memory_uses_smaller_batches(
    pipeline: Pipeline, store: BlobStore
) -> None:
    small = generated(engine(pipeline, store, batch=4, rows=4))
    assert levels_apart(small, generated(engine(pipeline, store, batch=2))) <= LEVELS


def test_learning_that_runs_out_of_memory_uses_smaller_calls(pipeline: Pipeline, store: BlobStore) -> None:
    # Three samples of each class and step, each with its gradient: two of the six fit.
    small = engine(pipeline, store, batch=6, rows=5)
    large = engine(pipeline, store, batch=2)
    for found, wanted in zip(learned(small), learned(large), strict=True):
        assert is_same_token(large, found, wanted)
    assert isinstance(small.pipeline.denoiser, SmallCard)
    assert small.pipeline.denoiser.largest == 4


def test_an_error_names_the_class_whose_samples_do_not_fit(pipeline: Pipeline, store: BlobStore) -> None:
    with pytest.raises(ResourceExhausted, match="learning 'boat' alone"):
        learned(engine(pipeline, store, batch=4, rows=1))


def test_the_batch_size_that_fits_is_found_once(pipeline: Pipeline, store: BlobStore) -> None:
    small = engine(pipeline, store, batch=4, rows=4)
    items = [contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in range(4)]
    calls = [
        small.generate(contract.GenerateRequest(items=items, steps=2, guidance=2.0)).cost.unet_calls
        for _ in range(2)
    ]
    assert calls == [1 + 2 * 2, 2 * 2]


def test_an_item_that_does_not_fit_alone_fails_by_name(pipeline: Pipeline, store: BlobStore) -> None:
    # An edit also needs its source: the inversions fit, the edits do not.
    small = engine(pipeline, store, batch=4, rows=1)
    with pytest.raises(ResourceExhausted, match="item 0 alone"):
        edited(small, 2)
    kept = contract.ReconstructRequest(
        items=[contract.ReconstructItem(image=image, caption=CAPTION) for image in put_images(small, 2)],
        preset=PRESET,
    )
    response = small.reconstruct(kept)
    assert [outcome.problem for outcome in response.outcomes] == [None, None]
    assert response.cost.unet_calls == 0


def test_an_error_names_the_image_whose_inversion_does_not_fit_alone(
    pipeline: Pipeline, store: BlobStore
) -> None:
    small = engine(pipeline, store, batch=4, rows=0)
    with pytest.raises(ResourceExhausted, match=put_images(small, 1)[0]):
        reconstructed(small, "direct")


@pytest.mark.parametrize("room", [2, 0])
def test_images_are_decoded_in_batches_that_fit_in_memory(
    pipeline: Pipeline, store: BlobStore, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    codec = pipeline.codec
    whole, sizes = codec.decode, list[int]()

    def on_a_small_card(
        latents: Tensor, decoder: Decoder
    ) -> list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
        if len(latents) > room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        sizes.append(len(latents))
        return whole(latents, decoder)

    expected = edited(engine(pipeline, store, batch=2))
    monkeypatch.setattr(codec, "decode", on_a_small_card)
    small = engine(pipeline, store, batch=4)
    if room == 0:
        with pytest.raises(ResourceExhausted, match="item 0 alone"):
            edited(small)
    else:
        assert len(edited(small)) == len(expected)
        assert sizes == [2] * 4
