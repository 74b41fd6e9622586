import time
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    EditResponse,
    GenerateItem,
    GenerateRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import Cancelled, ModelFormatRefused, PromptTooLong, UnknownModel
from counterpose_core.images.codecs import decode_image, encode_png, encode_raw
from counterpose_core.types import Cost, Inversion
from counterpose_services.editor.engine import EditorEngine
from evaluation.reference.same_answers import LEVELS, levels_apart, stored_images
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline

pytestmark = pytest.mark.floats

CAPTION = "a photo of a red bus on grass"
EDITS = ("a photo of a blue bus on grass", "a photo of a red bus on grass in the rain", "a blue tram")
QUICK = PromptToPromptPreset(steps=4, guidance=2.0, inner_steps=2)


@pytest.fixture(scope="module")
def engine(root: Path, store: BlobStore) -> EditorEngine:
    return EditorEngine.load(SUITE, root, store)


def put_image(store: BlobStore, seed: int, shape: tuple[int, int] = (RESOLUTION, RESOLUTION)) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)
    return store.put(encode_png(pixels))


def edits(store: BlobStore, seed: int = 1) -> list[EditItem]:
    image = put_image(store, seed)
    return [EditItem(image=image, caption=CAPTION, edited_caption=edited) for edited in EDITS]


def pixels(store: BlobStore, response: EditResponse) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    refs = [variant.image for outcome in response.outcomes for variant in outcome.unwrap().variants]
    return np.stack([decode_image(store.get(ref)) for ref in refs])


@pytest.mark.paper("LANCE-A1-12-edit")
def test_every_edit_gets_an_image_for_each_sweep_value(engine: EditorEngine, store: BlobStore) -> None:
    preset = QUICK.model_copy(update={"self_replace": (0.75, 0.25)})
    response = engine.edit(EditRequest(items=edits(store), preset=preset))
    for outcome in response.outcomes:
        assert [variant.strength for variant in outcome.unwrap().variants] == [0.75, 0.25]
    assert pixels(store, response).shape == (6, RESOLUTION, RESOLUTION, 3)
    assert response.model == engine.identity


@pytest.mark.fault("T18")
def test_what_is_made_of_an_image_is_found_by_it(engine: EditorEngine, store: BlobStore) -> None:
    items = edits(store, seed=77)[:1]
    preset = QUICK.model_copy(update={"self_replace": (0.75, 0.25)})
    [outcome] = engine.edit(EditRequest(items=items, preset=preset)).outcomes
    made = {variant.image for variant in outcome.unwrap().variants}
    assert store.derived is not None
    kept = [path for path in store.derived.glob("*/*/*") if path.name.startswith(items[0].image)]
    assert {path.parent.parent.name for path in kept} >= {"inversion"}
    orphans = store.erase(items[0].image, unused_since=time.time() + 1)
    listed = set().union(*(store.erase(ref, unused_since=time.time() + 1) or set() for ref in orphans or ()))
    assert listed == made
    assert not any(path.exists() for path in kept)


def test_an_edit_does_not_depend_on_other_items_of_the_request(
    engine: EditorEngine, store: BlobStore
) -> None:
    items = edits(store) + edits(store, seed=2)
    together = pixels(store, engine.edit(EditRequest(items=items, preset=QUICK))).astype(int)
    alone = [pixels(store, engine.edit(EditRequest(items=[item], preset=QUICK))) for item in items]
    assert np.abs(together - np.concatenate(alone)).max() <= 1


@pytest.mark.parametrize("inversion", ["direct", "negative-prompt", "null-text"])
def test_item_costs_add_up_to_the_evaluations_made(
    engine: EditorEngine, store: BlobStore, inversion: Inversion
) -> None:
    preset = QUICK.model_copy(update={"inversion": inversion})
    items = edits(store, seed=3) + edits(store, seed=4)[:1]
    response = engine.edit(EditRequest(items=items, preset=preset))
    costs = [outcome.unwrap().cost for outcome in response.outcomes]
    total = sum(costs[1:], costs[0])
    assert total.unet_evaluations == response.cost.unet_evaluations
    assert total.unet_backward_evaluations == response.cost.unet_backward_evaluations
    assert total.vae_passes == response.cost.vae_passes == 4 * 3 + 2
    assert 0 < total.seconds <= response.cost.seconds
    assert (response.cost.unet_backward_evaluations > 0) == (inversion == "null-text")


@pytest.mark.paper("LANCE-A1-6-invert")
def test_an_image_is_inverted_once(engine: EditorEngine, store: BlobStore) -> None:
    image = put_image(store, 5)
    first = engine.reconstruct(
        ReconstructRequest(items=[ReconstructItem(image=image, caption=CAPTION)], preset=QUICK)
    )
    other_guidance = QUICK.model_copy(update={"guidance": 5.0, "self_replace": (0.5,)})
    item = EditItem(image=image, caption=CAPTION, edited_caption=EDITS[0])
    second = engine.edit(EditRequest(items=[item], preset=other_guidance))
    assert first.cost.unet_evaluations == 4
    # Four target steps of two halves, three source rows while attention is injected.
    made = second.cost.model_copy(update={"seconds": 0.0, "attention_map_bytes": 0, "flops": 0})
    assert made == Cost(unet_calls=4, unet_evaluations=8 + 3, vae_passes=1)


def test_null_text_inversions_depend_on_the_guidance(engine: EditorEngine, store: BlobStore) -> None:
    item = ReconstructItem(image=put_image(store, 6), caption=CAPTION)
    for guidance in (2.0, 3.0):
        preset = QUICK.model_copy(update={"inversion": "null-text", "guidance": guidance})
        assert engine.reconstruct(ReconstructRequest(items=[item], preset=preset)).cost.unet_calls > 0


def test_direct_reconstruction_equals_the_autoencoder_s(engine: EditorEngine, store: BlobStore) -> None:
    item = ReconstructItem(image=put_image(store, 7), caption=CAPTION)
    outcome = engine.reconstruct(ReconstructRequest(items=[item], preset=QUICK)).outcomes[0].unwrap()
    codec = engine.pipeline.codec
    expected = codec.decode(codec.encode([decode_image(store.get(item.image))]))[0]
    assert levels_apart(decode_image(store.get(outcome.image)), expected) <= LEVELS
    assert 0 < outcome.psnr_db < 60


def test_images_of_any_shape_are_cropped_to_the_suite_s_resolution(
    engine: EditorEngine, store: BlobStore
) -> None:
    wide = ReconstructItem(image=put_image(store, 8, shape=(40, 90)), caption=CAPTION)
    outcome = engine.reconstruct(ReconstructRequest(items=[wide], preset=QUICK)).outcomes[0].unwrap()
    assert decode_image(store.get(outcome.image)).shape == (RESOLUTION, RESOLUTION, 3)


@pytest.mark.fault("B4")
def test_bad_items_do_not_affect_others(engine: EditorEngine, store: BlobStore) -> None:
    good = edits(store)[0]
    broken = store.put(b"\x89PNG\r\n\x1a\n but no more")
    long = "a red bus " * 20
    changes: list[dict[str, str]] = [
        {"image": "0" * 64},
        {"image": broken},
        {"caption": long},
        {"edited_caption": long},
        {"caption": "a poison bus"},
        {"edited_caption": "a poison bus"},
    ]
    items = [good, *(good.model_copy(update=change) for change in changes), good]
    outcomes = engine.edit(EditRequest(items=items, preset=QUICK)).outcomes
    codes = [outcome.problem.code if outcome.problem else None for outcome in outcomes]
    assert codes == [
        None, "artifact-missing", "image-undecodable", "prompt-too-long", "prompt-too-long",
        "numerical-failure", "numerical-failure", None,
    ]  # fmt: skip
    (alone,) = engine.edit(EditRequest(items=[good], preset=QUICK)).outcomes
    first, last, wanted = (
        stored_images(store, [variant.image for variant in each.unwrap().variants])
        for each in (outcomes[0], outcomes[7], alone)
    )
    assert levels_apart(first, wanted) <= LEVELS
    assert levels_apart(last, wanted) <= LEVELS


def test_a_request_with_only_bad_items_is_answered(engine: EditorEngine) -> None:
    item = ReconstructItem(image="0" * 64, caption=CAPTION)
    response = engine.reconstruct(ReconstructRequest(items=[item], preset=QUICK))
    assert response.outcomes[0].problem is not None
    assert response.cost.unet_calls == 0


@pytest.mark.paper("LANCE-D-seeds")
def test_generated_images_depend_on_prompt_and_seed(engine: EditorEngine, store: BlobStore) -> None:
    items = [GenerateItem(prompt=CAPTION, seed=seed) for seed in (1, 2, 3, 1, 5)]
    items.append(GenerateItem(prompt="a poison bus", seed=1))
    response = engine.generate(GenerateRequest(items=items, steps=3, guidance=2.0))
    assert response.outcomes[5].problem is not None
    refs = [outcome.unwrap().image for outcome in response.outcomes[:5]]
    alone = engine.generate(GenerateRequest(items=items[1:2], steps=3, guidance=2.0)).outcomes[0].unwrap()
    first, made, again = stored_images(store, [*refs[:2], alone.image])
    assert levels_apart(made, again) <= LEVELS
    assert levels_apart(first, made) > LEVELS
    assert response.cost.unet_evaluations == 6 * 2 * 3
    assert response.cost.unet_calls == 2 * 3


def test_local_blend_of_an_unchanged_caption_returns_the_reconstruction(
    engine: EditorEngine, store: BlobStore
) -> None:
    item = ReconstructItem(image=put_image(store, 1), caption=CAPTION)
    made = engine.reconstruct(ReconstructRequest(items=[item], preset=QUICK)).outcomes[0].unwrap().image
    (kept,) = stored_images(store, [made])
    same = EditItem(image=item.image, caption=CAPTION, edited_caption=CAPTION)
    for local_blend in (True, False):
        preset = QUICK.model_copy(update={"local_blend": local_blend})
        for edited in pixels(store, engine.edit(EditRequest(items=[same], preset=preset))):
            assert (levels_apart(edited, kept) <= LEVELS) is local_blend


def test_cancellation_stops_the_call_and_keeps_finished_inversions(
    engine: EditorEngine, store: BlobStore
) -> None:
    polls = iter([False] * 6)
    request = EditRequest(items=edits(store, seed=9), preset=QUICK)
    with pytest.raises(Cancelled):
        engine.edit(request, cancelled=lambda: next(polls, True))
    sources = ReconstructRequest(
        items=[ReconstructItem(image=put_image(store, 9), caption=CAPTION)], preset=QUICK
    )
    assert engine.reconstruct(sources).cost.unet_calls == 0


@pytest.mark.parametrize("inversion", ["direct", "negative-prompt", "null-text"])
def test_cancellation_is_checked_before_every_call(
    engine: EditorEngine, store: BlobStore, inversion: Inversion
) -> None:
    polls: list[bool] = []

    def asked() -> bool:
        polls.append(False)
        return False

    item = EditItem(image=put_image(store, 10), caption=CAPTION, edited_caption=EDITS[0])
    preset = QUICK.model_copy(update={"inversion": inversion, "self_replace": (0.5,), "inner_tolerance": 0.0})
    response = engine.edit(EditRequest(items=[item], preset=preset), cancelled=asked)
    # And once before the image is decoded.
    assert len(polls) == response.cost.unet_calls + 1
    polls.clear()
    engine.generate(
        GenerateRequest(items=[GenerateItem(prompt=CAPTION, seed=1)], steps=3, guidance=2.0), cancelled=asked
    )
    assert len(polls) == 3 + 1


def test_a_call_after_a_cancelled_one_is_answered_in_full(engine: EditorEngine, store: BlobStore) -> None:
    polls = iter([False] * 6)
    request = EditRequest(items=edits(store, seed=11), preset=QUICK)
    with pytest.raises(Cancelled):
        engine.edit(request, cancelled=lambda: next(polls, True))
    again, once_more = pixels(store, engine.edit(request)), pixels(store, engine.edit(request))
    assert again.shape == (9, RESOLUTION, RESOLUTION, 3)
    assert levels_apart(again, once_more) <= LEVELS


def test_prompt_tokens_are_counted_with_the_text_encoder_s_tokenizer(engine: EditorEngine) -> None:
    assert len(engine.pipeline.prompts.tokenize("a red bus").ids) == 5
    assert engine.max_tokens == 24
    with pytest.raises(PromptTooLong, match="has 62 tokens; the text encoder reads 24"):
        engine.pipeline.prompts.tokenize("a red bus " * 20)


def test_the_revision_is_the_digest_of_the_files(
    engine: EditorEngine, store: BlobStore, tmp_path: Path
) -> None:
    write_tiny_pipeline(tmp_path / "tiny")
    assert EditorEngine.load(SUITE, tmp_path, store).identity == engine.identity
    config = tmp_path / "tiny" / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("0.012", "0.013"), encoding="utf-8")
    assert EditorEngine.load(SUITE, tmp_path, store).identity.revision != engine.identity.revision


def test_weights_other_than_safetensors_are_refused(store: BlobStore, tmp_path: Path) -> None:
    write_tiny_pipeline(tmp_path / "tiny")
    weights = tmp_path / "tiny" / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelFormatRefused, match="unet"):
        EditorEngine.load(SUITE, tmp_path, store)


@pytest.mark.parametrize("name", ["absent", "../tiny", "/etc", "a//b", ""])
def test_a_name_outside_the_model_root_is_unknown(root: Path, store: BlobStore, name: str) -> None:
    with pytest.raises(UnknownModel):
        EditorEngine.load(SUITE.model_copy(update={"model": name}), root / "tiny", store)


def test_raw_images_are_accepted(engine: EditorEngine, store: BlobStore) -> None:
    array = np.full((RESOLUTION, RESOLUTION, 3), 90, dtype=np.uint8)
    items = [
        ReconstructItem(image=store.put(encoded), caption=CAPTION)
        for encoded in (encode_raw(array), encode_png(array))
    ]
    raw, png = engine.reconstruct(ReconstructRequest(items=items, preset=QUICK)).outcomes
    read = stored_images(store, [each.unwrap().image for each in (raw, png)])
    assert levels_apart(*read) <= LEVELS


def test_a_bfloat16_unet_makes_nearly_the_same_edits(
    engine: EditorEngine, root: Path, store: BlobStore
) -> None:
    preset = QUICK.model_copy(update={"steps": 2, "guidance": 1.0})
    request = EditRequest(items=edits(store), preset=preset)
    coarse = EditorEngine.load(SUITE, root, store, dtype="bfloat16")
    half, full = (pixels(store, each.edit(request)).astype(int) for each in (coarse, engine))
    assert 0 < np.abs(half - full).mean() <= 4
