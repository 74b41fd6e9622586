"""The costs the editor reports, per item and in total, in every count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import encode_png
from counterpose_core.types import Cost, Inversion
from counterpose_services.editor.engine import EditorEngine
from fakes.tiny_pipeline import RESOLUTION, SUITE

CAPTION = "a photo of a red bus on grass"
EDITS = ("a photo of a blue bus on grass", "a photo of a red bus on grass in the rain", "a blue tram")
QUICK = PromptToPromptPreset(steps=4, guidance=2.0, inner_steps=2)
ADDED_UP = (
    "unet_evaluations", "unet_backward_evaluations", "vae_passes", "clip_passes", "flops",
    "attention_map_bytes",
)  # fmt: skip
"""Counts that belong to one item; calls and waits are shared."""


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


def put_image(engine: EditorEngine, seed: int) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    return engine.store.put(encode_png(pixels))


def assert_items_add_up(items: list[Cost], whole: Cost) -> None:
    total = sum(items, Cost())
    assert {name: getattr(total, name) for name in ADDED_UP} == {
        name: getattr(whole, name) for name in ADDED_UP
    }
    assert max(item.host_syncs for item in items) <= whole.host_syncs


@pytest.mark.parametrize("inversion", ["direct", "negative-prompt", "null-text"])
def test_edit_costs_add_up_to_the_cost_of_the_response(engine: EditorEngine, inversion: Inversion) -> None:
    preset = QUICK.model_copy(update={"inversion": inversion})
    pairs = [(put_image(engine, 1), edited) for edited in EDITS] + [(put_image(engine, 2), EDITS[0])]
    items = [
        contract.EditItem(image=image, caption=CAPTION, edited_caption=edited) for image, edited in pairs
    ]
    response = engine.edit(contract.EditRequest(items=items, preset=preset))
    assert_items_add_up([outcome.unwrap().cost for outcome in response.outcomes], response.cost)
    assert response.cost.attention_map_bytes > 0
    assert (response.cost.host_syncs > 0) == (inversion == "null-text")
    flops, cost = engine.pipeline.flops, response.cost
    decoded = len(items) * len(preset.self_replace)
    assert cost.vae_passes == 2 + decoded
    assert cost.flops == (
        cost.unet_evaluations * flops.evaluation.forward
        + cost.unet_backward_evaluations * flops.evaluation.backward
        + 2 * flops.encode
        + decoded * flops.decode
    )
    assert min(flops.evaluation.forward, flops.evaluation.backward, flops.encode, flops.decode) > 0


def test_an_inversion_is_charged_once(engine: EditorEngine) -> None:
    item = contract.ReconstructItem(image=put_image(engine, 3), caption=CAPTION)
    first, again = (engine.reconstruct(contract.ReconstructRequest(items=[item], preset=QUICK)) for _ in "12")
    flops = engine.pipeline.flops
    assert first.cost.flops == QUICK.steps * flops.evaluation.forward + flops.encode + flops.decode
    assert again.cost.flops == flops.decode
    for response in (first, again):
        assert_items_add_up([response.outcomes[0].unwrap().cost], response.cost)


def test_generation_costs_add_up_to_the_cost_of_the_response(engine: EditorEngine) -> None:
    items = [contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in (1, 2, 3)]
    response = engine.generate(contract.GenerateRequest(items=items, steps=3, guidance=2.0))
    assert_items_add_up([outcome.unwrap().cost for outcome in response.outcomes], response.cost)
    assert response.cost.flops == 3 * (
        2 * 3 * engine.pipeline.flops.evaluation.forward + engine.pipeline.flops.decode
    )
    assert response.cost.attention_map_bytes == response.cost.host_syncs == 0
