"""Null-text edits through the engine: during the inversion, or after a cached one."""

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    EditResponse,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.types import Cost
from counterpose_services.editor.engine import EditorEngine
from fakes.tiny_pipeline import RESOLUTION, SUITE

pytestmark = pytest.mark.floats

CAPTION = "a photo of a red bus on grass"
EDITS = ("a photo of a blue bus on grass", "a photo of a red bus on grass in the rain")
STEPS, INNER = 4, 2
PRESET = PromptToPromptPreset(
    inversion="null-text", steps=STEPS, guidance=2.0, inner_steps=INNER, inner_tolerance=0.0,
    self_replace=(0.25, 0.75), cross_replace=0.5,
)  # fmt: skip


@pytest.fixture
def engine(root: Path, tmp_path: Path) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path / "store")))


def items(engine: EditorEngine, *seeds: int) -> list[EditItem]:
    drawn = [np.random.default_rng(seed).integers(0, 256, (RESOLUTION, RESOLUTION, 3)) for seed in seeds]
    refs = [engine.store.put(encode_png(pixels.astype(np.uint8))) for pixels in drawn]
    return [EditItem(image=ref, caption=CAPTION, edited_caption=edited) for ref in refs for edited in EDITS]


def pixels(engine: EditorEngine, response: EditResponse) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    refs = [variant.image for outcome in response.outcomes for variant in outcome.unwrap().variants]
    return np.stack([decode_image(engine.store.get(ref)).astype(np.int64) for ref in refs])


def invert(engine: EditorEngine, item: EditItem) -> Cost:
    source = ReconstructItem(image=item.image, caption=item.caption)
    return engine.reconstruct(ReconstructRequest(items=[source], preset=PRESET)).cost


def test_edits_made_during_inversion_cost_fewer_evaluations(engine: EditorEngine) -> None:
    request = EditRequest(items=items(engine, 1, 2), preset=PRESET)
    together = engine.edit(request)
    after = engine.edit(request)
    assert np.abs(pixels(engine, together) - pixels(engine, after)).max() <= 1
    # One path until the first value's injection ends, two from then on, both halves of four edits.
    targets = 4 * 2 * (1 + 3 * 2)
    inversions = 2 * STEPS * (3 + INNER)
    assert together.cost.unet_evaluations == inversions + targets
    assert together.cost.unet_backward_evaluations == 2 * STEPS * INNER
    # After a stored inversion the sources are evaluated again, for the three steps that read them.
    assert after.cost.unet_evaluations == targets + 2 * 3


def test_an_inversion_made_during_an_edit_is_kept(engine: EditorEngine) -> None:
    first = items(engine, 3)[0]
    engine.edit(EditRequest(items=[first], preset=PRESET))
    assert invert(engine, first).unet_calls == 0


def test_cached_and_new_inversions_share_a_request(engine: EditorEngine) -> None:
    chosen = items(engine, 4, 5)
    invert(engine, chosen[0])
    mixed = engine.edit(EditRequest(items=chosen, preset=PRESET))
    alone = [pixels(engine, engine.edit(EditRequest(items=[item], preset=PRESET))) for item in chosen]
    assert np.abs(pixels(engine, mixed) - np.concatenate(alone)).max() <= 1
    costs = [outcome.unwrap().cost for outcome in mixed.outcomes]
    assert sum(cost.unet_evaluations for cost in costs) == mixed.cost.unet_evaluations
    assert sum(cost.vae_passes for cost in costs) == mixed.cost.vae_passes


@pytest.mark.fault("B4")
def test_bad_items_do_not_affect_others(engine: EditorEngine) -> None:
    good, other = items(engine, 6)
    changes = [{"image": "0" * 64}, {"edited_caption": "a red bus " * 20}, {"edited_caption": "a poison bus"},
               {"caption": "a poison bus"}]  # fmt: skip
    asked = [good, *(good.model_copy(update=change) for change in changes), other]
    outcomes = engine.edit(EditRequest(items=asked, preset=PRESET)).outcomes
    codes = [outcome.problem.code if outcome.problem else None for outcome in outcomes]
    assert codes == [
        None, "artifact-missing", "prompt-too-long", "numerical-failure", "numerical-failure", None,
    ]  # fmt: skip


def test_a_smaller_value_resumes_from_the_fork_of_an_earlier_edit(engine: EditorEngine) -> None:
    item = items(engine, 7)[0]
    large = EditRequest(items=[item], preset=PRESET, strength=(0.75,))
    engine.edit(large)
    small = engine.edit(large.model_copy(update={"strength": (0.25,)}))
    whole = engine.edit(EditRequest(items=[item], preset=PRESET))
    assert np.abs(pixels(engine, small)[0] - pixels(engine, whole)[0]).max() <= 1
    # From the fork before the second step on: three steps of both halves, a source for one of them.
    assert small.cost.unet_evaluations == 3 * 2 + 1
