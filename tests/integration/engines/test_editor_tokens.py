"""Tokens learned by the editor's engine: alone, in batches, in links, and used in prompts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.contract.tokens import (
    LearnedToken,
    LearnTokensRequest,
    LearnTokensResponse,
    TextualInversionPreset,
)
from counterpose_core.editing.denoiser import never
from counterpose_core.errors import Cancelled, InvalidRequest, PromptTooLong
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.types import Cost
from counterpose_services.batching.batch_size import BatchSizers
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.prompts import PromptEncoder
from counterpose_services.editor.tokens.files import TokenBundle, unpack_bundle
from counterpose_services.editor.tokens.training_latents import TrainingLatents
from evaluation.reference.same_answers import FLOAT32, LEVELS, levels_apart, stored_images
from evaluation.reference.same_tokens import is_same_learning, is_same_token
from fakes.tiny_pipeline import RESOLUTION, SUITE

pytestmark = pytest.mark.floats

MISSING, PROMPT = "e" * 64, "a photo of a <class>"
TEMPLATES = {"name": "two", "prompts": [PROMPT, "the <class> in the snow"]}
PRESET = TextualInversionPreset.model_validate(
    {"steps": 8, "learning_rate": 5e-3, "batch": 2, "templates": TEMPLATES}
)
STARTS = {"boat": "bus", "wagon": "red tram", "sled": "snow"}


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


@pytest.fixture
def fresh(engine: EditorEngine, tmp_path: Path) -> EditorEngine:
    """An engine with an empty store, which has no cached link."""
    return EditorEngine(engine.pipeline, SUITE, BlobStore(str(tmp_path)))


def put_images(engine: EditorEngine, name: str, count: int = 3) -> list[str]:
    drawn = np.random.default_rng(len(name)).integers(
        0, 256, (count, RESOLUTION, RESOLUTION, 3), dtype=np.uint8
    )
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def item(engine: EditorEngine, name: str, **fields: object) -> dict[str, Any]:
    given = {"class_name": name, "images": put_images(engine, name), "initialiser": STARTS.get(name)}
    return given | fields


def learn(
    engine: EditorEngine,
    *items: dict[str, Any],
    preset: TextualInversionPreset = PRESET,
    link_steps: int = 100,
    seed: int = 3,
) -> LearnTokensResponse:
    body = {"items": items, "preset": preset, "link_steps": link_steps, "seed": seed}
    return engine.learn_tokens(LearnTokensRequest.model_validate(body))


def only(response: LearnTokensResponse) -> LearnedToken:
    [outcome] = response.outcomes
    return outcome.unwrap()


def bundle(engine: EditorEngine, token: LearnedToken) -> TokenBundle:
    assert token.bundle is not None
    return unpack_bundle(engine.store.get(token.bundle))


@pytest.mark.paper("DI-S3-inversion")
def elsewhere(engine: EditorEngine) -> EditorEngine:
    """Return an engine with the same weights and an empty store."""
    return EditorEngine(engine.pipeline, SUITE, BlobStore(f"{engine.store.root}/elsewhere"))


def test_a_class_s_token_does_not_depend_on_the_rest_of_the_request(fresh: EditorEngine) -> None:
    alone = elsewhere(fresh)
    response = learn(fresh, *(item(fresh, name) for name in STARTS))
    for name, outcome in zip(STARTS, response.outcomes, strict=True):
        one = only(learn(alone, item(alone, name)))
        assert is_same_learning(fresh, bundle(fresh, outcome.unwrap()), bundle(alone, one))
        assert one.losses == pytest.approx(outcome.unwrap().losses, abs=FLOAT32)
        assert one.cost.unet_evaluations == PRESET.steps * PRESET.batch
    assert response.cost.unet_calls < 3 * PRESET.steps * PRESET.batch


def test_links_resumed_from_checkpoints_match_one_long_run(
    engine: EditorEngine, fresh: EditorEngine, tmp_path: Path
) -> None:
    whole, store = only(learn(fresh, item(fresh, "boat"))), BlobStore(str(tmp_path / "links"))
    links: list[LearnedToken] = []
    for link in (3, 1, 4):
        killed = EditorEngine(engine.pipeline, SUITE, store)
        checkpoint = links[-1].checkpoint if links else None
        links.append(only(learn(killed, item(killed, "boat", checkpoint=checkpoint), link_steps=link)))
    assert [(token.steps, len(token.losses)) for token in links] == [(3, 3), (4, 1), (8, 4)]
    assert [token.bundle is None for token in links] == [True, True, False]
    ended = bundle(EditorEngine(engine.pipeline, SUITE, store), links[-1])
    assert is_same_learning(engine, ended, bundle(fresh, whole))
    assert [loss for token in links for loss in token.losses] == pytest.approx(whole.losses, abs=FLOAT32)


def test_a_repeated_link_is_answered_from_the_cache(fresh: EditorEngine) -> None:
    first, again = (learn(fresh, item(fresh, "boat"), link_steps=5) for _ in "12")
    assert first.cost.unet_evaluations == 10
    assert again.cost.model_copy(update={"seconds": 0.0}) == Cost()
    assert only(again).model_copy(update={"cost": Cost()}) == only(first).model_copy(update={"cost": Cost()})


def test_a_finished_token_is_free_and_can_be_trained_further(fresh: EditorEngine) -> None:
    done = only(learn(fresh, item(fresh, "boat")))
    still = only(learn(fresh, item(fresh, "boat", checkpoint=done.checkpoint)))
    assert (still.bundle, still.losses, still.cost.unet_calls) == (done.bundle, [], 0)
    longer = PRESET.model_copy(update={"steps": 10})
    further = only(learn(fresh, item(fresh, "boat", checkpoint=done.checkpoint), preset=longer))
    assert (further.steps, len(further.losses)) == (10, 2)
    assert further.bundle != done.bundle


def test_a_bundle_describes_itself_and_keeps_its_initialiser_s_norm(
    engine: EditorEngine, fresh: EditorEngine
) -> None:
    token = only(learn(fresh, item(fresh, "wagon")))
    made = bundle(fresh, token)
    about, start = made.description, engine.pipeline.prompts.mean_embedding("red tram")
    assert (about.class_name, about.initialiser, about.model) == ("wagon", "red tram", engine.identity)
    assert (about.width, about.vectors, about.steps, about.images) == (16, 1, 8, 3)
    assert (about.pin_norm, about.templates, about.seed) == (True, "two", 3)
    assert about.data_digest is not None
    assert float(made.vectors.norm()) == pytest.approx(float(start.norm()), rel=1e-5)
    assert not made.vectors[0].allclose(start, atol=1e-3)
    free = PRESET.model_copy(update={"pin_norm": False, "vectors": 2})
    loose = bundle(fresh, only(learn(fresh, item(fresh, "wagon"), preset=free)))
    assert loose.vectors.shape == (2, 16)
    assert not loose.vectors.norm(dim=1).allclose(start.norm(), rtol=1e-4)


@pytest.mark.parametrize("pin_norm", [True, False])
def test_a_token_is_offered_at_each_interpolation_weight(fresh: EditorEngine, pin_norm: bool) -> None:
    weights = (0.0, 0.25, 1.0)
    preset = PRESET.model_copy(update={"interpolation_weights": weights, "pin_norm": pin_norm, "vectors": 2})
    token = only(learn(fresh, item(fresh, "boat"), preset=preset))
    assert tuple(offer.interpolation_weight for offer in token.offers) == weights
    assert token.bundle == token.offers[-1].bundle
    found = [unpack_bundle(fresh.store.get(offer.bundle)) for offer in token.offers]
    start, part, whole = (each.vectors for each in found)
    assert tuple(each.description.interpolation_weight for each in found) == weights
    assert start.allclose(fresh.pipeline.prompts.mean_embedding("bus").repeat(2, 1).float(), atol=1e-6)
    assert not whole.allclose(start, atol=1e-3)
    mixed = 0.75 * start + 0.25 * whole
    mixed *= start.norm(dim=-1, keepdim=True) / mixed.norm(dim=-1, keepdim=True) if pin_norm else 1.0
    assert part.allclose(mixed, atol=1e-5, rtol=0)
    # The interpolation weights do not affect the training, so the links and the result are the same.
    full = preset.model_copy(update={"interpolation_weights": (1.0,)})
    plain = only(learn(fresh, item(fresh, "boat"), preset=full))
    assert (plain.bundle, plain.cost.unet_calls) == (token.bundle, 0)


def test_seed_and_class_change_a_token_and_image_order_does_not(fresh: EditorEngine) -> None:
    images = put_images(fresh, "boat")
    first = only(learn(fresh, item(fresh, "boat")))
    turned = only(learn(fresh, item(fresh, "boat", images=images[::-1])))
    assert turned.bundle == first.bundle
    others = [
        only(learn(fresh, item(fresh, "boat"), seed=4)),
        only(learn(fresh, item(fresh, "barge", initialiser="bus", images=images))),
        only(learn(fresh, item(fresh, "boat", images=images[:2]))),
    ]
    vectors = [bundle(fresh, token).vectors for token in (first, *others)]
    assert not any(vectors[0].allclose(each, atol=1e-4) for each in vectors[1:])


@pytest.mark.paper("DI-S3-inversion")
def test_learning_does_not_change_the_loaded_weights(engine: EditorEngine, fresh: EditorEngine) -> None:
    prompts = engine.pipeline.prompts
    assert isinstance(prompts, PromptEncoder)
    networks = [engine.pipeline.denoiser._unet, prompts._text_encoder]
    before = [each.clone() for network in networks for each in network.parameters()]
    learn(fresh, item(fresh, "boat"), link_steps=2)
    after = [each for network in networks for each in network.parameters()]
    # The vector of "poison" is NaN, which equals nothing.
    assert all(each.equal(old) or bool(old.isnan().any()) for each, old in zip(after, before, strict=True))
    assert all(each.grad is None and not each.requires_grad for each in after)


def test_class_costs_add_up_to_the_cost_of_the_response(fresh: EditorEngine) -> None:
    response = learn(fresh, item(fresh, "boat"), item(fresh, "sled"), link_steps=5)
    flops, whole = fresh.pipeline.flops, response.cost
    costs = [outcome.unwrap().cost for outcome in response.outcomes]
    total = sum(costs, Cost())
    assert whole.unet_evaluations == whole.unet_backward_evaluations == 2 * 5 * PRESET.batch
    assert whole.unet_calls == whole.host_syncs == 5
    assert (total.unet_evaluations, total.vae_passes, total.flops) == (
        whole.unet_evaluations, whole.vae_passes, whole.flops,
    )  # fmt: skip
    # Each drawn image and each drawn mirror image, and no others.
    assert 2 * 3 <= whole.vae_passes <= 2 * 3 * 2
    one = flops.evaluation.forward + flops.evaluation.backward
    assert whole.flops == whole.unet_evaluations * one + whole.vae_passes * flops.encode
    assert total.seconds == pytest.approx(whole.seconds, rel=0.5)
    later = learn(fresh, item(fresh, "boat"), item(fresh, "sled"))
    assert later.cost.vae_passes <= 12 - whole.vae_passes


def test_images_are_encoded_once_for_all_tokens(fresh: EditorEngine) -> None:
    always = PRESET.model_copy(update={"flip": 1.0})
    first = learn(fresh, item(fresh, "boat"), preset=always)
    other = learn(fresh, item(fresh, "boat"), preset=always, seed=9)
    assert (first.cost.vae_passes, other.cost.vae_passes) == (3, 0)


def test_a_mirrored_image_is_encoded_like_its_mirror(fresh: EditorEngine) -> None:
    [image] = put_images(fresh, "boat", 1)
    seen = [TrainingLatents(fresh.pipeline, fresh.store, BatchSizers(1)) for _ in "12"]
    taken = [each.prepare([(image, False), (image, True)], never).vae_passes for each in seen]
    assert taken == [2, 0]
    pixels = decode_image(fresh.store.get(image))
    plain, mirror = fresh.pipeline.codec.encode([pixels, pixels[:, ::-1].copy()])
    for latents in seen:
        assert latents.of((image, False)).allclose(plain, atol=FLOAT32)
        assert latents.of((image, True)).allclose(mirror, atol=FLOAT32)


@pytest.mark.fault("B25", "B32", "B47")
def test_bad_classes_fail_with_a_reason_and_do_not_affect_others(fresh: EditorEngine) -> None:
    broken = fresh.store.put(b"\x89PNG\r\n\x1a\n but no more")
    good, images = item(fresh, "boat"), put_images(fresh, "boat")
    bad = {
        "no image": item(fresh, "kite", images=[]),
        "none of the 2 images": item(fresh, "dog", images=[MISSING, broken], initialiser="bus"),
        "slot": item(fresh, "a <class>", initialiser="bus", images=images),
        "reads no token": item(fresh, " ", initialiser=None, images=images),
        "outside of its vocabulary": item(fresh, "zebra", initialiser=None, images=images),
        "'quagga' contains": item(fresh, "horse", initialiser="quagga", images=images),
        "'poison' are not finite": item(fresh, "toxin", initialiser="poison", images=images),
        "no artifact": item(fresh, "plate", initialiser="bus", images=images, checkpoint=MISSING),
        "not safetensors": item(fresh, "bee", initialiser="bus", images=images, checkpoint=broken),
    }  # fmt: skip
    codes = [
        "dataset-empty", "dataset-empty", "invalid-request", "invalid-request", "invalid-request",
        "invalid-request", "numerical-failure", "artifact-missing", "model-format-refused",
    ]  # fmt: skip
    bad["no image"]["initialiser"] = "bus"
    response = learn(fresh, *bad.values(), good)
    for reason, code, outcome in zip(bad, codes, response.outcomes, strict=False):
        assert outcome.problem is not None, reason
        assert (outcome.problem.code, reason in outcome.problem.detail) == (code, True), outcome.problem
    made = bundle(fresh, response.outcomes[-1].unwrap())
    alone = elsewhere(fresh)
    assert is_same_learning(fresh, made, bundle(alone, only(learn(alone, item(alone, "boat")))))


@pytest.mark.paper("DI-AD-broad-init")
def test_a_class_code_can_be_learned_from_an_initialiser(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "E-170", initialiser="bus"), link_steps=1))
    assert token.class_name == "E-170"


def test_unreadable_images_are_dropped_and_listed(fresh: EditorEngine) -> None:
    broken = fresh.store.put(b"no image")
    images = [broken, *put_images(fresh, "boat"), MISSING]
    first = only(learn(fresh, item(fresh, "boat", images=images), link_steps=3))
    last = only(learn(fresh, item(fresh, "boat", images=images, checkpoint=first.checkpoint)))
    for token in (first, last):
        assert token.images == 3
        assert [(each.image, each.problem.code) for each in token.dropped] == [
            (broken, "image-undecodable"), (MISSING, "artifact-missing"),
        ]  # fmt: skip
    clean = only(learn(fresh, item(fresh, "boat")))
    assert is_same_learning(fresh, bundle(fresh, last), bundle(fresh, clean))


def test_a_token_can_be_learned_from_one_image(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "boat", images=put_images(fresh, "boat", 1))))
    assert token.images == bundle(fresh, token).description.images == 1


OWN = ["a blue <class> on grass", "the <class> in the rain", "a photo of a <class>"]


def test_each_image_can_have_its_own_prompt(fresh: EditorEngine) -> None:
    given = item(fresh, "boat", prompts=OWN)
    turned = given | {"images": given["images"][::-1], "prompts": OWN[::-1]}
    swapped = given | {"prompts": OWN[::-1]}
    plain = item(fresh, "sled")
    response = learn(fresh, given, plain)
    token = response.outcomes[0].unwrap()
    assert bundle(fresh, token).description.templates == "own"
    assert only(learn(fresh, turned)).bundle == token.bundle
    vectors = [bundle(fresh, only(learn(fresh, each))).vectors for each in (swapped, item(fresh, "boat"))]
    assert not any(bundle(fresh, token).vectors.allclose(each, atol=1e-4) for each in vectors)
    # The other class of the call uses the templates.
    other, neighbour = elsewhere(fresh), bundle(fresh, response.outcomes[1].unwrap())
    assert is_same_learning(fresh, neighbour, bundle(other, only(learn(other, item(other, "sled")))))


def test_prompts_equal_to_the_template_change_nothing(fresh: EditorEngine) -> None:
    one = PRESET.model_copy(update={"templates": PRESET.templates.model_copy(update={"prompts": (PROMPT,)})})
    templated = only(learn(fresh, item(fresh, "boat"), preset=one))
    own = only(learn(fresh, item(fresh, "boat", prompts=[PROMPT] * 3)))
    assert is_same_token(fresh, bundle(fresh, own), bundle(fresh, templated))


def test_links_with_their_own_prompts_match_one_long_run(fresh: EditorEngine) -> None:
    whole = only(learn(fresh, item(fresh, "boat", prompts=OWN)))
    other = elsewhere(fresh)
    begun = only(learn(other, item(other, "boat", prompts=OWN), link_steps=5))
    ended = only(learn(other, item(other, "boat", prompts=OWN, checkpoint=begun.checkpoint)))
    assert is_same_learning(fresh, bundle(other, ended), bundle(fresh, whole))


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("a boat", "invalid-request"), ("a <class> by a zebra", "invalid-request"),
        ("a " * 22 + "<class>", "prompt-too-long"),
    ],
)  # fmt: skip
def test_an_invalid_image_prompt_fails_its_class(fresh: EditorEngine, prompt: str, code: str) -> None:
    bad = item(fresh, "boat", prompts=[PROMPT, prompt, PROMPT])
    outcomes = learn(fresh, bad, item(fresh, "sled"), link_steps=1).outcomes
    assert [outcome.problem and outcome.problem.code for outcome in outcomes] == [code, None]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class_name": "barge"}, "class_name is 'boat', not 'barge'"),
        ({"initialiser": "tram"}, "initialiser is 'bus', not 'tram'"),
        ({"images": 1}, "its images is"),
        ({"seed": 4}, "its seed is 3, not 4"),
        ({"preset": {"learning_rate": 1e-3}}, "its learning_rate is 0.005, not 0.001"),
        ({"preset": {"steps": 4}}, "has 5 steps, more than the preset's 4"),
    ],
)
def test_a_checkpoint_of_another_token_is_refused(
    fresh: EditorEngine, changed: dict[str, Any], message: str
) -> None:
    begun = only(learn(fresh, item(fresh, "boat"), link_steps=5))
    given = item(fresh, "boat", checkpoint=begun.checkpoint)
    given |= {name: changed[name] for name in ("class_name", "initialiser") if name in changed}
    given["images"] = given["images"][: changed.get("images")]
    preset = PRESET.model_copy(update=changed.get("preset", {}))
    [outcome] = learn(fresh, given, preset=preset, seed=changed.get("seed", 3)).outcomes
    assert outcome.problem is not None
    assert message in outcome.problem.detail


def test_templates_the_text_encoder_cannot_encode_are_refused(fresh: EditorEngine) -> None:
    for prompt, error in (("a zebra of <class>", InvalidRequest), ("a " * 22 + "<class>", PromptTooLong)):
        preset = PRESET.model_dump() | {"templates": {"name": "bad", "prompts": [prompt]}}
        with pytest.raises(error):
            learn(fresh, item(fresh, "boat"), preset=TextualInversionPreset.model_validate(preset))


def test_cancellation_stops_the_call_between_steps(fresh: EditorEngine) -> None:
    body = {"items": [item(fresh, "boat")], "preset": PRESET, "seed": 3}
    request = LearnTokensRequest.model_validate(body)
    # Before each of three images is read, before a batch is encoded, before each step.
    for allowed in (0, 2, 3, 4, 3 + 1 + PRESET.steps - 1):
        left = iter([False] * allowed)
        with pytest.raises(Cancelled):
            fresh.learn_tokens(request, cancelled=partial(next, left, True))
    assert only(fresh.learn_tokens(request)).losses == only(learn(fresh, item(fresh, "boat"))).losses


def test_a_learned_token_draws_other_images_than_its_initialiser(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "boat"))).bundle
    learned, named = GenerateItem(prompt=PROMPT, seed=1, token=token), GenerateItem(prompt="a bus", seed=1)
    response = fresh.generate(GenerateRequest(items=[learned, named], steps=2, guidance=2.0))
    drawn = stored_images(fresh.store, [outcome.unwrap().image for outcome in response.outcomes])
    assert levels_apart(drawn[0], drawn[1]) > LEVELS
