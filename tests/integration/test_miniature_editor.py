"""The editor's engine with the trained miniature generator, compared with rendered counterfactuals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    GenerateItem,
    GenerateRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.tokens import LearnTokenItem, LearnTokensRequest
from counterpose_core.images.codecs import Pixels, decode_image, encode_raw
from counterpose_core.suite import load_suite
from counterpose_core.types import Inversion
from counterpose_miniature.world.grammar import Edit, caption, edits
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import GENERATOR
from counterpose_miniature.world.scene import Scene, is_withheld
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.latent_codec import psnr_db

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
SUITE = load_suite("miniature").editor
QUICK = SUITE.presets["quick"]
SCENES = [scene_for(DEVELOPMENT, index, GENERATOR) for index in range(900, 904)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, WEIGHTS, BlobStore(str(tmp_path_factory.mktemp("store"))))


def put(engine: EditorEngine, scene: Scene) -> str:
    return engine.store.put(encode_raw(render(scene)))


def get(engine: EditorEngine, ref: str) -> Pixels:
    return decode_image(engine.store.get(ref))


def first_edit(scene: Scene, edit_type: str) -> Edit:
    return next(edit for edit in edits(scene, edit_type) if not is_withheld(edit.scene_after))


@pytest.mark.parametrize("edit_type", ["background", "domain"])
def test_edits_approach_the_true_counterfactual(engine: EditorEngine, edit_type: str) -> None:
    wanted = [first_edit(scene, edit_type) for scene in SCENES]
    items = [
        EditItem(image=put(engine, scene), caption=edit.caption, edited_caption=edit.edited_caption)
        for scene, edit in zip(SCENES, wanted, strict=True)
    ]
    response = engine.edit(EditRequest(items=items, preset=QUICK))
    gains = []
    for scene, edit, outcome in zip(SCENES, wanted, response.outcomes, strict=True):
        truth = render(edit.scene_after)
        made = get(engine, outcome.unwrap().variants[1].image)
        gains.append(psnr_db(made, truth) - psnr_db(render(scene), truth))
    assert np.mean(gains) > 3.0


@pytest.mark.parametrize(("inversion", "least_db"), [("null-text", 28.0), ("negative-prompt", 20.0)])
def test_inversions_reconstruct_as_well_as_the_autoencoder(
    engine: EditorEngine, inversion: Inversion, least_db: float
) -> None:
    items = [ReconstructItem(image=put(engine, scene), caption=caption(scene)) for scene in SCENES[:2]]
    few = QUICK.model_copy(update={"steps": 10})
    best = engine.reconstruct(ReconstructRequest(items=items, preset=few))
    preset = few.model_copy(update={"inversion": inversion})
    response = engine.reconstruct(ReconstructRequest(items=items, preset=preset))
    for ceiling, outcome in zip(best.outcomes, response.outcomes, strict=True):
        assert ceiling.unwrap().psnr_db > 20.0
        images = (get(engine, each.unwrap().image) for each in (ceiling, outcome))
        assert psnr_db(*images) > least_db


def test_a_generated_image_is_reproducible_in_another_batch(engine: EditorEngine) -> None:
    items = [GenerateItem(prompt=caption(scene), seed=seed) for seed, scene in enumerate(SCENES)]
    together = engine.generate(GenerateRequest(items=items, steps=5, guidance=3.0))
    alone = engine.generate(GenerateRequest(items=items[2:3], steps=5, guidance=3.0))
    made, again = (get(engine, each.unwrap().image) for each in (together.outcomes[2], alone.outcomes[0]))
    assert np.abs(made.astype(int) - again.astype(int)).max() <= 1


def test_the_text_encoder_accepts_the_token_preset(engine: EditorEngine) -> None:
    images = [put(engine, scene) for scene in SCENES[:2]]
    prompts = ["a photo of a <class> on the sand at night", "a <class> next to a dog , a sketch"]
    preset = SUITE.textual_inversion
    request = LearnTokensRequest(
        items=[
            LearnTokenItem(class_name="plate", images=images),
            LearnTokenItem(class_name="E-170", initialiser="tram", images=images, prompts=prompts),
        ],
        preset=preset,
        link_steps=2,
        seed=1,
    )
    response = engine.learn_tokens(request)
    assert [outcome.unwrap().steps for outcome in response.outcomes] == [2, 2]
    assert response.cost.unet_evaluations == 2 * 2 * preset.batch
    assert response.cost.unet_calls == 2
