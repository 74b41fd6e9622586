"""Previews decode the same latents with a smaller decoder; full images then need no evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, EditResponse
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import Cancelled, InvalidRequest, UnknownModel
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import EditorSuite
from counterpose_core.types import Decoder, Inversion
from counterpose_services.editor.engine import EditorEngine
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline, write_tiny_preview

pytestmark = pytest.mark.floats

SWEEP = (0.25, 0.5, 0.75)
PLAIN = PromptToPromptPreset(steps=4, guidance=2.0, inner_steps=2, self_replace=SWEEP)
PRESET = PLAIN.model_copy(update={"preview": True})
PREVIEWING = SUITE.model_copy(update={"preview_decoder": "small"})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(folder / "tiny")
    write_tiny_preview(folder / "small")
    return folder


class Bench:
    """An engine with its own store, so that no earlier results are cached."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.store = folder, BlobStore(str(folder))
        self.engine = EditorEngine.load(PREVIEWING, root, self.store)
        noise = np.random.default_rng(1).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
        image = self.store.put(encode_png(noise))
        self.items = [
            EditItem(image=image, caption="a photo of a red bus on grass", edited_caption=edited)
            for edited in ("a photo of a blue bus on grass", "a photo of a red bus on grass in the rain")
        ]

    def edit(
        self, *values: float, decoder: Decoder = "full", preset: PromptToPromptPreset = PRESET, items: int = 2
    ) -> EditResponse:
        chosen = self.items[:items]
        request = EditRequest(items=chosen, preset=preset, strength=values or None, decoder=decoder)
        return self.engine.edit(request)

    def images(self, response: EditResponse) -> Levels:
        refs = [variant.image for outcome in response.outcomes for variant in outcome.unwrap().variants]
        return stored_images(self.store, refs)


@pytest.fixture
def bench(root: Path, tmp_path: Path) -> Bench:
    return Bench(root, tmp_path)


@pytest.mark.parametrize("inversion", ["direct", "null-text"])
def test_a_previewed_edit_is_decoded_in_full_without_an_evaluation(
    bench: Bench, inversion: Inversion
) -> None:
    preset = PRESET.model_copy(update={"inversion": inversion})
    shown = bench.edit(decoder="preview", preset=preset)
    full = bench.edit(preset=preset)
    assert full.cost.unet_evaluations == 0
    assert full.cost.vae_passes == 6
    without = preset.model_copy(update={"preview": False})
    assert levels_apart(bench.images(full), bench.images(bench.edit(preset=without))) <= LEVELS
    assert levels_apart(bench.images(full), bench.images(shown)) > LEVELS


def test_a_preview_names_its_decoder_and_reports_its_cost(bench: Bench) -> None:
    shown, full = bench.edit(decoder="preview"), bench.edit()
    assert (shown.model.id, full.model.id) == ("small", "tiny")
    assert shown.model.revision != full.model.revision
    flops = bench.engine.pipeline.flops
    assert 0 < flops.preview != flops.decode
    assert full.cost.flops == 6 * flops.decode
    evaluations = flops.evaluation.forward * shown.cost.unet_evaluations
    assert shown.cost.flops == evaluations + flops.encode + 6 * flops.preview


def test_a_single_previewed_value_is_decoded_without_the_others(bench: Bench) -> None:
    bench.edit(decoder="preview")
    one = bench.edit(0.5, items=1)
    assert one.cost.unet_evaluations == 0
    both = (bench.images(one)[0], bench.images(bench.edit())[1])
    assert levels_apart(*both) <= LEVELS


def test_missing_latents_are_made_again(bench: Bench) -> None:
    bench.edit(decoder="preview", items=1)
    before = bench.images(bench.edit(0.5, items=1))
    for kept in (bench.folder / "derived" / "previewed").rglob("*.*"):
        kept.write_bytes(b"rotten")
    again = bench.edit(0.5, items=1)
    assert again.cost.unet_evaluations > 0
    assert levels_apart(bench.images(again), before) <= LEVELS


def test_a_repeated_preview_is_evaluated_once(bench: Bench) -> None:
    first, second = bench.edit(decoder="preview"), bench.edit(decoder="preview")
    assert first.cost.unet_evaluations > second.cost.unet_evaluations == 0
    assert levels_apart(bench.images(first), bench.images(second)) <= LEVELS


def test_cancelling_during_decoding_keeps_the_latents(bench: Bench) -> None:
    polls = 0

    def during_decoding() -> bool:
        nonlocal polls
        polls += 1
        return (bench.folder / "derived" / "previewed").exists()

    request = EditRequest(items=bench.items, preset=PRESET, decoder="preview")
    with pytest.raises(Cancelled):
        bench.engine.edit(request, cancelled=during_decoding)
    assert polls > 1
    assert bench.edit().cost.unet_evaluations == 0


def test_a_suite_without_a_preview_decoder_refuses_before_any_work(root: Path, tmp_path: Path) -> None:
    bench = Bench(root, tmp_path)
    bench.engine = EditorEngine.load(SUITE, root, bench.store)
    with pytest.raises(InvalidRequest, match="preview_decoder"):
        bench.edit(decoder="preview")
    assert not (tmp_path / "derived" / "inversion").exists()


def test_an_error_names_the_missing_preview_decoder(root: Path, tmp_path: Path) -> None:
    suite = SUITE.model_copy(update={"preview_decoder": "nowhere"})
    with pytest.raises(UnknownModel, match="nowhere"):
        EditorEngine.load(suite, root, BlobStore(str(tmp_path)))


def test_previews_need_a_preset_and_a_suite_that_support_them(bench: Bench) -> None:
    with pytest.raises(ValidationError, match="preview = true"):
        EditRequest(items=bench.items, preset=PLAIN, decoder="preview")
    with pytest.raises(ValidationError, match=r"'small-images'.*preview_decoder"):
        EditorSuite(
            model="tiny",
            resolution=RESOLUTION,
            default_preset="small-images",
            presets={"small-images": PRESET},
        )
