"""Half precision: overflow fails only its own item, and null embeddings are retried in float32."""

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
from counterpose_core.editing.denoiser import AttentionControl, Cancellation, never
from counterpose_core.errors import Cancelled, NumericalFailure
from counterpose_core.images.codecs import encode_png
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.reference.same_answers import RECONSTRUCTION_DB, stored_images

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
NULL_TEXT = PromptToPromptPreset(
    inversion="null-text", steps=3, guidance=2.0, self_replace=(0.4,), inner_steps=2, inner_tolerance=0.0
)
IMAGES = 3


class Overflowing(UNetDenoiser):
    """A UNet whose second of three samples becomes NaN: its gradients, or its evaluations."""

    gradients: tuple[str, ...] = ()
    evaluations: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__(tiny_unet().half())
        self.seen: set[torch.dtype] = set()

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        if text.requires_grad:
            self.seen.add(text.dtype)
            if self._spoils(self.gradients, latents):
                text = text.clone()
                text.register_hook(lambda gradient: _spoilt(gradient))
        output = super().__call__(latents, timestep, text, control)
        return _spoilt(output) if self._spoils(self.evaluations, latents) else output

    def _spoils(self, precisions: tuple[str, ...], latents: Tensor) -> bool:
        # A retry and an image that is inverted alone have other samples in their calls.
        return self.precision in precisions and len(latents) in (1, IMAGES)


def _spoilt(rows: Tensor) -> Tensor:
    rows = rows.clone()
    rows[len(rows) // 2] = torch.nan
    return rows


@pytest.fixture
def denoiser() -> Overflowing:
    return Overflowing()


@pytest.fixture
def engine(pipeline: Pipeline, denoiser: Overflowing, tmp_path: Path) -> EditorEngine:
    return EditorEngine(replace(pipeline, denoiser=denoiser), SUITE, BlobStore(str(tmp_path)))


def put_images(engine: EditorEngine) -> list[str]:
    shape = (IMAGES, RESOLUTION, RESOLUTION, 3)
    drawn = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def reconstruct(
    engine: EditorEngine, preset: PromptToPromptPreset = NULL_TEXT, cancelled: Cancellation = never
) -> contract.ReconstructResponse:
    items = [contract.ReconstructItem(image=image, caption=CAPTION) for image in put_images(engine)]
    return engine.reconstruct(contract.ReconstructRequest(items=items, preset=preset), cancelled=cancelled)


def edit(engine: EditorEngine) -> contract.EditResponse:
    items = [
        contract.EditItem(image=image, caption=CAPTION, edited_caption=EDITED) for image in put_images(engine)
    ]
    return engine.edit(contract.EditRequest(items=items, preset=NULL_TEXT))


def failures(response: contract.ReconstructResponse | contract.EditResponse) -> list[str | None]:
    return [outcome.problem.detail if outcome.problem else None for outcome in response.outcomes]


def embedding(engine: EditorEngine, number: int) -> Tensor:
    """Return the null-text inversion of an image."""
    kept = engine._inversions.find(CaptionedImage(put_images(engine)[number], CAPTION), NULL_TEXT)
    assert kept is not None
    return kept.uncond


def test_an_embedding_that_overflows_in_half_precision_is_optimised_in_float32(
    engine: EditorEngine, denoiser: Overflowing, pipeline: Pipeline, tmp_path: Path
) -> None:
    sound = EditorEngine(replace(pipeline, denoiser=Overflowing()), SUITE, BlobStore(str(tmp_path / "sound")))
    expected = [outcome.unwrap() for outcome in reconstruct(sound).outcomes]
    denoiser.gradients = ("float16",)
    response = reconstruct(engine)
    found = [outcome.unwrap() for outcome in response.outcomes]
    assert [one.cost.float32_retries for one in found] == [0, 1, 0]
    assert response.cost.float32_retries == 1
    assert sum(one.cost.unet_evaluations for one in found) == response.cost.unet_evaluations
    assert [one.psnr_db for one in found] == pytest.approx(
        [one.psnr_db for one in expected], abs=RECONSTRUCTION_DB
    )
    theirs, ours = (
        stored_images(store, [one.image for one in made])
        for store, made in ((sound.store, expected), (engine.store, found))
    )
    assert np.abs(ours[:, None] - theirs[None]).mean(axis=(2, 3, 4)).argmin(axis=1).tolist() == [0, 1, 2]
    assert failures(edit(engine)) == [None] * IMAGES


def test_a_retried_embedding_equals_the_one_of_float32(
    engine: EditorEngine, denoiser: Overflowing, pipeline: Pipeline, tmp_path: Path
) -> None:
    denoiser.gradients = ("float16",)
    half = EditorEngine(replace(pipeline, denoiser=Overflowing()), SUITE, BlobStore(str(tmp_path / "half")))
    same_weights = replace(pipeline, denoiser=UNetDenoiser(tiny_unet().half().float()))
    full = EditorEngine(same_weights, SUITE, BlobStore(str(tmp_path / "full")))
    for each in (engine, half, full):
        reconstruct(each)
    wanted = embedding(full, 1)
    # Half precision differs from float32 about a thousand times as much as a second float32 run.
    assert float((embedding(engine, 1) - wanted).norm()) < float((embedding(half, 1) - wanted).norm()) / 10


def test_an_item_that_also_fails_in_float32_does_not_affect_others(
    engine: EditorEngine, denoiser: Overflowing
) -> None:
    denoiser.gradients = ("float16", "float32")
    response = edit(engine)
    image = put_images(engine)[1]
    assert failures(response) == [
        None,
        f"the null-text inversion of {image!r} is not finite in float16, and again in float32",
        None,
    ]
    with pytest.raises(NumericalFailure):
        response.outcomes[1].unwrap()
    assert response.cost.float32_retries == 1


def test_an_overflowing_evaluation_is_not_retried(engine: EditorEngine, denoiser: Overflowing) -> None:
    denoiser.evaluations = ("float16",)
    response = reconstruct(engine)
    image = put_images(engine)[1]
    assert failures(response) == [
        None, f"the null-text inversion of {image!r} is not finite in float16", None
    ]  # fmt: skip
    assert response.cost.float32_retries == 0


def test_other_inversions_are_not_retried(engine: EditorEngine, denoiser: Overflowing) -> None:
    denoiser.evaluations = ("float16",)
    response = reconstruct(engine, NULL_TEXT.model_copy(update={"inversion": "direct"}))
    problem = failures(response)[1]
    assert problem is not None
    assert problem.endswith("is not finite in float16")
    assert response.cost.float32_retries == 0


@pytest.mark.parametrize("polls", [0, 9])
def test_a_retry_restores_the_weights_even_if_cancelled(
    engine: EditorEngine, denoiser: Overflowing, polls: int
) -> None:
    before = {name: (part, part.data_ptr(), part.clone()) for name, part in denoiser._unet.named_parameters()}
    denoiser.gradients = ("float16",)
    if polls:
        asked = iter([False] * polls)
        with pytest.raises(Cancelled):
            reconstruct(engine, cancelled=lambda: denoiser.precision == "float32" and next(asked, True))
    else:
        reconstruct(engine)
    assert denoiser.precision == "float16"
    for name, part in denoiser._unet.named_parameters():
        kept, address, value = before[name]
        assert part is kept
        assert part.data_ptr() == address
        assert part.equal(value)


def test_embeddings_are_optimised_in_float32_at_any_weight_precision(
    engine: EditorEngine, denoiser: Overflowing
) -> None:
    reconstruct(engine)
    assert denoiser.seen == {torch.float32}
    found = embedding(engine, 0)
    assert found.dtype == torch.float32
    # It differs from its half-precision rounding, so Adam's small steps are kept.
    assert not found.half().float().equal(found)
