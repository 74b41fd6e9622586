"""Few-step presets on a tiny pipeline: drawn noise, other solvers and other noise levels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_services.editor.engine import EditorEngine
from fakes.tiny_pipeline import RESOLUTION, SUITE

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
FEW = PromptToPromptPreset(steps=4, guidance=2.0, spacing="trailing", self_replace=(0.25, 0.75))
VIRTUAL = FEW.model_copy(update={"inversion": "virtual", "solver": "consistent"})


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


def afresh(engine: EditorEngine, folder: Path) -> EditorEngine:
    """The same weights with an empty store."""
    return EditorEngine(engine.pipeline, SUITE, BlobStore(str(folder)))


def item(engine: EditorEngine, seed: int, edited: str = EDITED) -> EditItem:
    drawn = np.random.default_rng(seed).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    return EditItem(image=engine.store.put(encode_png(drawn)), caption=CAPTION, edited_caption=edited)


def edited(
    engine: EditorEngine, preset: PromptToPromptPreset, *items: EditItem, **asked: Any
) -> NDArray[np.int16]:
    response = engine.edit(EditRequest(items=list(items), preset=preset, **asked))
    refs = [variant.image for outcome in response.outcomes for variant in outcome.unwrap().variants]
    return np.stack([decode_image(engine.store.get(ref)).astype(np.int16) for ref in refs])


def restored(engine: EditorEngine, preset: PromptToPromptPreset, one: EditItem) -> NDArray[np.int16]:
    asked = [ReconstructItem(image=one.image, caption=one.caption)]
    response = engine.reconstruct(ReconstructRequest(items=asked, preset=preset))
    return decode_image(engine.store.get(response.outcomes[0].unwrap().image)).astype(np.int16)


def test_with_drawn_noise_an_unchanged_caption_gives_the_reconstruction(engine: EditorEngine) -> None:
    one = item(engine, 1, CAPTION)
    assert np.abs(edited(engine, VIRTUAL, one) - restored(engine, VIRTUAL, one)).max() <= 1
    # An image passes through the autoencoder but no step, and so does the computation of its path.
    assert np.abs(restored(engine, FEW, one) - restored(engine, VIRTUAL, one)).max() <= 1


def test_drawn_noise_needs_no_network_evaluation(engine: EditorEngine, tmp_path: Path) -> None:
    fresh = afresh(engine, tmp_path)
    one = item(fresh, 2)
    asked = [ReconstructItem(image=one.image, caption=one.caption)]
    assert fresh.reconstruct(ReconstructRequest(items=asked, preset=VIRTUAL)).cost.unet_evaluations == 0


def test_drawn_noise_depends_only_on_seed_and_image(engine: EditorEngine, tmp_path: Path) -> None:
    first, second = item(engine, 3), item(engine, 4)
    together = edited(engine, VIRTUAL, first, second)
    fresh = afresh(engine, tmp_path)
    alone = edited(fresh, VIRTUAL, item(fresh, 4))
    assert np.abs(alone - together[2:]).max() <= 1
    other = edited(fresh, VIRTUAL.model_copy(update={"seed": 1}), second)
    assert np.abs(other - together[2:]).max() > 1


@pytest.mark.parametrize("change", [{"solver": "dpm-solver++"}, {"spacing": "leading"}])
def test_solver_and_noise_levels_change_the_edit(engine: EditorEngine, change: dict[str, Any]) -> None:
    one = item(engine, 5)
    changed = FEW.model_copy(update=change)
    assert np.abs(edited(engine, FEW, one) - edited(engine, changed, one)).max() > 1


@pytest.mark.parametrize("preset", [FEW.model_copy(update={"solver": "dpm-solver++"}), VIRTUAL])
def test_a_sweep_made_value_by_value_equals_the_whole_sweep(
    engine: EditorEngine, tmp_path: Path, preset: PromptToPromptPreset
) -> None:
    whole = edited(engine, preset, item(engine, 6))
    fresh = afresh(engine, tmp_path)
    one = item(fresh, 6)
    largest_first = [edited(fresh, preset, one, strength=(value,)) for value in (0.75, 0.25)]
    assert np.abs(np.concatenate(largest_first[::-1]) - whole).max() <= 1
