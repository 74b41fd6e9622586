"""Regions of edits in the editor's engine: what lies outside is the reconstruction, by any inversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, ReconstructItem, ReconstructRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.regions import EditRegion
from counterpose_core.errors import ArtifactMissing, InvalidRequest
from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from counterpose_core.types import BlobRef, Decoder, Side
from counterpose_services.editor.edits.regions import latent_region
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_preview

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue tram on grass"
PRESETS: dict[str, dict[str, Any]] = {
    "direct": {},
    "negative-prompt": {"inversion": "negative-prompt"},
    "null-text": {"inversion": "null-text", "inner_steps": 2},
    "virtual": {"inversion": "virtual", "solver": "consistent", "spacing": "trailing"},
    "dpm-solver++": {"solver": "dpm-solver++"},
    "local blend": {"local_blend": True},
}


@pytest.fixture(scope="module")
def engine(root: Path, store: BlobStore) -> EditorEngine:
    return EditorEngine.load(SUITE, root, store)


def preset(name: str) -> PromptToPromptPreset:
    return PromptToPromptPreset(steps=4, guidance=2.0, self_replace=(0.75, 0.25), **PRESETS[name])


def image(store: BlobStore, shape: tuple[int, int] = (RESOLUTION, RESOLUTION), *, seed: int = 3) -> BlobRef:
    return store.put(encode_png(np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)))


def mask(store: BlobStore, shape: tuple[int, int] = (RESOLUTION, RESOLUTION)) -> BlobRef:
    """Light in the left half."""
    pixels = np.zeros((*shape, 3), np.uint8)
    pixels[:, : shape[1] // 2] = 255
    return store.put(encode_png(pixels))


def item(store: BlobStore, edits: Side = "inside", **changes: Any) -> EditItem:
    known = {"image": image(store), "caption": CAPTION, "edited_caption": EDITED}
    region = EditRegion(mask=mask(store), edits=edits)
    return EditItem.model_validate({**known, "region": region, **changes})


@pytest.fixture
def decoded(engine: EditorEngine, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The latents that are decoded: a decoder mixes neighbours."""
    seen: list[torch.Tensor] = []
    decode = engine.pipeline.codec.decode

    def noting(latents: torch.Tensor, decoder: Decoder = "full") -> list[Pixels]:
        seen.append(latents)
        return decode(latents, decoder)

    monkeypatch.setattr(engine.pipeline.codec, "decode", noting)
    return seen


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("edits", ["inside", "outside"])
def test_outside_the_region_an_edit_is_the_reconstruction(
    name: str, edits: Side, engine: EditorEngine, store: BlobStore, decoded: list[torch.Tensor]
) -> None:
    bounded = item(store, edits)
    [outcome] = engine.edit(EditRequest(items=[bounded], preset=preset(name))).outcomes
    assert {each.confined_by for each in outcome.unwrap().variants} == {"latent"}
    source = ReconstructItem(image=bounded.image, caption=CAPTION)
    assert engine.reconstruct(ReconstructRequest(items=[source], preset=preset(name))).outcomes[0].value
    clean, made, again = decoded
    assert torch.equal(clean, again)
    half = made.shape[-1] // 2
    sides = slice(0, half), slice(half, None)
    changed, kept = sides if edits == "inside" else sides[::-1]
    assert torch.equal(made[..., kept], clean[..., kept].expand_as(made[..., kept]))
    assert all(not torch.allclose(one[..., changed], clean[0][..., changed], atol=1e-3) for one in made)


@pytest.mark.parametrize("decoder", ["full", "preview"])
def test_the_rest_is_put_back_pixel_by_pixel_for_a_decoder_mixes_neighbours(
    decoder: Decoder, engine: EditorEngine, store: BlobStore, root: Path
) -> None:
    write_tiny_preview(root / "tiny-preview")
    suite = SUITE.model_copy(update={"preview_decoder": "tiny-preview"})
    previewing = EditorEngine.load(suite, root, store)
    bounded = item(store, image=image(store, seed=9))
    request = EditRequest(
        items=[bounded], preset=preset("direct").model_copy(update={"preview": True}), decoder=decoder
    )
    assert store.derived is not None
    for attempt in range(3):
        # The second time, the latents are those that were previewed; at last, the inversion was evicted.
        for path in store.derived.glob("inversion/*/*") if attempt == 2 else ():
            path.unlink()
        variants = previewing.edit(request).outcomes[0].unwrap().variants
        [unchanged] = {each.unchanged for each in variants}
        assert unchanged is not None
        rest = decode_image(store.get(unchanged))[:, RESOLUTION // 2 :]
        made = [decode_image(store.get(each.image)) for each in variants]
        assert all(np.array_equal(one[:, RESOLUTION // 2 :], rest) for one in made)
        assert len({one.tobytes() for one in made}) == len(variants)


def test_a_region_is_cropped_and_reduced_as_its_image_is(pipeline: Pipeline, store: BlobStore) -> None:
    shape = RESOLUTION, 3 * RESOLUTION
    wide = item(store, image=image(store, shape), region=EditRegion(mask=mask(store, shape)))
    assert wide.region is not None
    region = latent_region(pipeline, store, wide.image, wide.region)
    grid = pipeline.latent_shape[1:]
    # The left half of a wide image is the left half of its middle.
    expected = torch.zeros(grid, dtype=torch.bool)
    expected[:, : grid[1] // 2] = True
    assert torch.equal(region, expected)


def test_items_with_and_without_a_region_share_a_call_and_no_forks(
    engine: EditorEngine, store: BlobStore, decoded: list[torch.Tensor]
) -> None:
    bounded, whole = item(store), item(store, region=None)
    engine.edit(EditRequest(items=[bounded, whole], preset=preset("direct")))
    engine.edit(EditRequest(items=[whole], preset=preset("direct")))
    _, together, alone = decoded
    assert torch.allclose(together[2:], alone, atol=1e-5)
    assert not torch.allclose(together[:2], alone, atol=1e-3)


@pytest.mark.parametrize(
    ("sides", "inside"), [((16, 48), np.s_[:, :15]), ((16, 16), np.s_[3:4, 3:4])], ids=["beside", "thin"]
)
def test_a_region_that_the_crop_or_the_grid_of_latents_loses_is_refused(
    engine: EditorEngine, store: BlobStore, sides: tuple[int, int], inside: tuple[slice, slice]
) -> None:
    pixels = np.zeros((*sides, 3), np.uint8)
    pixels[inside] = 255
    lost = item(store, image=image(store, sides), region=EditRegion(mask=store.put(encode_png(pixels))))
    refused, made = engine.edit(EditRequest(items=[lost, item(store)], preset=preset("direct"))).outcomes
    assert refused.problem is not None
    assert refused.problem.code == InvalidRequest.code
    assert "no position of the editor's latents lies in it" in refused.problem.detail
    assert made.problem is None


def test_a_mask_that_does_not_fit_fails_its_item_alone(engine: EditorEngine, store: BlobStore) -> None:
    small = item(store, region=EditRegion(mask=mask(store, (8, 8))))
    empty = item(store, region=EditRegion(mask=store.put(encode_png(np.zeros((16, 16, 3), np.uint8)))))
    gone = item(store, region=EditRegion(mask="a" * 64))
    request = EditRequest(items=[small, empty, gone, item(store)], preset=preset("direct"))
    *refused, made = engine.edit(request).outcomes
    codes = [outcome.problem.code for outcome in refused if outcome.problem]
    assert codes == [InvalidRequest.code, InvalidRequest.code, ArtifactMissing.code]
    assert refused[0].problem is not None
    assert "the mask has 8 x 8 pixels, but its image 16 x 16" in refused[0].problem.detail
    assert made.problem is None
