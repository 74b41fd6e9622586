"""Half precision: what overflows fails alone, with its cause; a lost embedding is found in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fakes.tiny_pipeline import RESOLUTION, SUITE, tiny_unet, write_tiny_pipeline

# isort: split
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import (
    EditItem,
    EditorPreset,
    EditRequest,
    EditResponse,
    ReconstructItem,
    ReconstructRequest,
    ReconstructResponse,
)
from faultline_core.editing.denoiser import AttentionControl, Cancellation, never
from faultline_core.errors import Cancelled, NumericalFailure
from faultline_core.images import encode_png
from faultline_services.editor.engine import EditorEngine
from faultline_services.editor.inversions import Source
from faultline_services.editor.pipeline import Pipeline, load_pipeline
from faultline_services.editor.unet_denoiser import UNetDenoiser

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
NULL_TEXT = EditorPreset(
    inversion="null-text", steps=3, guidance=2.0, self_replace=(0.4,), inner_steps=2, inner_tolerance=0.0
)
PICTURES = 3


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
        # A retry, and a picture that is inverted alone, has other samples in its calls.
        return self.precision in precisions and len(latents) in (1, PICTURES)


def _spoilt(rows: Tensor) -> Tensor:
    rows = rows.clone()
    rows[len(rows) // 2] = torch.nan
    return rows


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(folder / "tiny")
    return load_pipeline(SUITE, folder, device="cpu", dtype="float32")


@pytest.fixture
def denoiser() -> Overflowing:
    return Overflowing()


@pytest.fixture
def engine(pipeline: Pipeline, denoiser: Overflowing, tmp_path: Path) -> EditorEngine:
    return EditorEngine(replace(pipeline, denoiser=denoiser), SUITE, BlobStore(str(tmp_path)))


def pictures(engine: EditorEngine) -> list[str]:
    shape = (PICTURES, RESOLUTION, RESOLUTION, 3)
    drawn = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def reconstruct(
    engine: EditorEngine, preset: EditorPreset = NULL_TEXT, cancelled: Cancellation = never
) -> ReconstructResponse:
    items = [ReconstructItem(image=image, caption=CAPTION) for image in pictures(engine)]
    return engine.reconstruct(ReconstructRequest(items=items, preset=preset), cancelled=cancelled)


def edit(engine: EditorEngine) -> EditResponse:
    items = [EditItem(image=image, caption=CAPTION, edited_caption=EDITED) for image in pictures(engine)]
    return engine.edit(EditRequest(items=items, preset=NULL_TEXT))


def failures(response: ReconstructResponse | EditResponse) -> list[str | None]:
    return [outcome.problem.detail if outcome.problem else None for outcome in response.outcomes]


def embedding(engine: EditorEngine, number: int) -> Tensor:
    """Return what null-text inversion found for a picture."""
    kept = engine._cache.find(Source(pictures(engine)[number], CAPTION), NULL_TEXT)
    assert kept is not None
    return kept.uncond


def test_an_embedding_lost_in_half_precision_is_found_in_float32(
    engine: EditorEngine, denoiser: Overflowing, pipeline: Pipeline, tmp_path: Path
) -> None:
    sound = EditorEngine(replace(pipeline, denoiser=Overflowing()), SUITE, BlobStore(str(tmp_path / "sound")))
    expected = [outcome.unwrap().image for outcome in reconstruct(sound).outcomes]
    denoiser.gradients = ("float16",)
    response = reconstruct(engine)
    found = [outcome.unwrap() for outcome in response.outcomes]
    assert [one.cost.float32_retries for one in found] == [0, 1, 0]
    assert response.cost.float32_retries == 1
    assert sum(one.cost.unet_evaluations for one in found) == response.cost.unet_evaluations
    assert [found[row].image for row in (0, 2)] == [expected[row] for row in (0, 2)]
    same_weights = replace(pipeline, denoiser=UNetDenoiser(tiny_unet().half().float()))
    full = EditorEngine(same_weights, SUITE, BlobStore(str(tmp_path / "full")))
    reconstruct(full)
    assert torch.allclose(embedding(engine, 1), embedding(full, 1), atol=1e-5)
    assert failures(edit(engine)) == [None] * PICTURES


def test_what_float32_does_not_find_either_fails_alone(engine: EditorEngine, denoiser: Overflowing) -> None:
    denoiser.gradients = ("float16", "float32")
    response = edit(engine)
    image = pictures(engine)[1]
    assert failures(response) == [
        None,
        f"the null-text inversion of {image!r} is not finite in float16, and again in float32",
        None,
    ]
    with pytest.raises(NumericalFailure):
        response.outcomes[1].unwrap()
    assert response.cost.float32_retries == 1


def test_an_evaluation_that_overflows_is_not_tried_again(engine: EditorEngine, denoiser: Overflowing) -> None:
    denoiser.evaluations = ("float16",)
    response = reconstruct(engine)
    image = pictures(engine)[1]
    assert failures(response) == [
        None, f"the null-text inversion of {image!r} is not finite in float16", None
    ]  # fmt: skip
    assert response.cost.float32_retries == 0


def test_other_inversions_are_not_tried_again(engine: EditorEngine, denoiser: Overflowing) -> None:
    denoiser.evaluations = ("float16",)
    response = reconstruct(engine, NULL_TEXT.model_copy(update={"inversion": "direct"}))
    problem = failures(response)[1]
    assert problem is not None
    assert problem.endswith("is not finite in float16")
    assert response.cost.float32_retries == 0


@pytest.mark.parametrize("polls", [0, 9])
def test_a_retry_leaves_the_weights_as_they_were_even_if_cancelled(
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


def test_embeddings_are_optimised_in_float32_whatever_the_weights_compute_in(
    engine: EditorEngine, denoiser: Overflowing
) -> None:
    reconstruct(engine)
    assert denoiser.seen == {torch.float32}
    found = embedding(engine, 0)
    assert found.dtype == torch.float32
    # Rounded to half precision it would not be what it is: the small steps of Adam are kept.
    assert not found.half().float().equal(found)
