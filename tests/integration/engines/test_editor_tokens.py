"""Tokens learned by the editor's engine: alone and in company, in links, and put into prompts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline
from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import GENERATED_KIND, GenerateItem, GenerateRequest
from faultline_core.contract.tokens import (
    LearnedToken,
    LearnTokensRequest,
    LearnTokensResponse,
    TextualInversionPreset,
)
from faultline_core.editing.denoiser import never
from faultline_core.errors import Cancelled, InvalidRequest, PromptTooLong
from faultline_core.images import decode_image, encode_png
from faultline_core.types import Cost
from faultline_services.editor import token_bundle
from faultline_services.editor.buckets import Buckets
from faultline_services.editor.engine import EditorEngine
from faultline_services.editor.token_bundle import TokenBundle
from faultline_services.editor.training_latents import TrainingLatents

MISSING, PROMPT = "e" * 64, "a photo of a <class>"
TEMPLATES = {"name": "two", "prompts": [PROMPT, "the <class> in the snow"]}
PRESET = TextualInversionPreset.model_validate(
    {"steps": 8, "learning_rate": 5e-3, "batch": 2, "templates": TEMPLATES}
)
STARTS = {"boat": "bus", "wagon": "red tram", "sled": "snow"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


@pytest.fixture
def fresh(engine: EditorEngine, tmp_path: Path) -> EditorEngine:
    """An engine over an empty store: it remembers no link."""
    return EditorEngine(engine.pipeline, SUITE, BlobStore(str(tmp_path)))


def pictures(engine: EditorEngine, name: str, count: int = 3) -> list[str]:
    drawn = np.random.default_rng(len(name)).integers(
        0, 256, (count, RESOLUTION, RESOLUTION, 3), dtype=np.uint8
    )
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def item(engine: EditorEngine, name: str, **fields: object) -> dict[str, Any]:
    given = {"class_name": name, "images": pictures(engine, name), "initialiser": STARTS.get(name)}
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
    return token_bundle.unpack(engine.store.get(token.bundle))


def test_a_class_comes_to_one_token_whatever_shares_the_request(
    engine: EditorEngine, root: Path, tmp_path: Path
) -> None:
    stores = [BlobStore(str(tmp_path / name)) for name in ("together", "alone")]
    together, alone = (EditorEngine(engine.pipeline, SUITE, store) for store in stores)
    response = learn(together, *(item(together, name) for name in STARTS))
    for name, outcome in zip(STARTS, response.outcomes, strict=True):
        one = only(learn(alone, item(alone, name)))
        found, wanted = bundle(together, outcome.unwrap()), bundle(alone, one)
        assert found.vectors.allclose(wanted.vectors, atol=1e-5, rtol=0)
        assert one.losses == pytest.approx(outcome.unwrap().losses, abs=1e-5)
        assert one.cost.unet_evaluations == PRESET.steps * PRESET.batch
    assert response.cost.unet_calls < 3 * PRESET.steps * PRESET.batch


def test_links_by_engines_that_know_only_the_checkpoint_are_one_long_run(
    engine: EditorEngine, fresh: EditorEngine, tmp_path: Path
) -> None:
    whole, store = only(learn(fresh, item(fresh, "boat"))), BlobStore(str(tmp_path / "links"))
    links: list[LearnedToken] = []
    for link in (3, 1, 4):
        killed = EditorEngine(engine.pipeline, SUITE, store)
        checkpoint = links[-1].checkpoint if links else None
        links.append(only(learn(killed, item(killed, "boat", checkpoint=checkpoint), link_steps=link)))
    assert [(token.steps, len(token.losses)) for token in links] == [(3, 3), (4, 1), (8, 4)]
    assert [token.bundle for token in links] == [None, None, whole.bundle]
    assert links[-1].checkpoint == whole.checkpoint
    assert [loss for token in links for loss in token.losses] == whole.losses


def test_a_link_asked_for_again_is_answered_from_memory(fresh: EditorEngine) -> None:
    first, again = (learn(fresh, item(fresh, "boat"), link_steps=5) for _ in "12")
    assert first.cost.unet_evaluations == 10
    assert again.cost.model_copy(update={"seconds": 0.0}) == Cost()
    assert only(again).model_copy(update={"cost": Cost()}) == only(first).model_copy(update={"cost": Cost()})


def test_a_finished_token_costs_nothing_and_may_be_taken_further(fresh: EditorEngine) -> None:
    done = only(learn(fresh, item(fresh, "boat")))
    still = only(learn(fresh, item(fresh, "boat", checkpoint=done.checkpoint)))
    assert (still.bundle, still.losses, still.cost.unet_calls) == (done.bundle, [], 0)
    longer = PRESET.model_copy(update={"steps": 10})
    further = only(learn(fresh, item(fresh, "boat", checkpoint=done.checkpoint), preset=longer))
    assert (further.steps, len(further.losses)) == (10, 2)
    assert further.bundle != done.bundle


def test_a_bundle_says_what_it_is_and_keeps_its_initialisers_norm(
    engine: EditorEngine, fresh: EditorEngine
) -> None:
    token = only(learn(fresh, item(fresh, "wagon")))
    made = bundle(fresh, token)
    told, start = made.description, engine.pipeline.prompts.mean_embedding("red tram")
    assert (told.class_name, told.initialiser, told.model) == ("wagon", "red tram", engine.identity)
    assert (told.width, told.vectors, told.steps, told.images) == (16, 1, 8, 3)
    assert (told.pin_norm, told.templates, told.seed) == (True, "two", 3)
    assert told.data_digest is not None
    assert float(made.vectors.norm()) == pytest.approx(float(start.norm()), rel=1e-5)
    assert not made.vectors[0].allclose(start, atol=1e-3)
    free = PRESET.model_copy(update={"pin_norm": False, "vectors": 2})
    loose = bundle(fresh, only(learn(fresh, item(fresh, "wagon"), preset=free)))
    assert loose.vectors.shape == (2, 16)
    assert not loose.vectors.norm(dim=1).allclose(start.norm(), rtol=1e-4)


@pytest.mark.parametrize("pin_norm", [True, False])
def test_a_token_is_offered_at_each_share_of_what_was_learned(fresh: EditorEngine, pin_norm: bool) -> None:
    preset = PRESET.model_copy(update={"shares": (0.0, 0.25, 1.0), "pin_norm": pin_norm, "vectors": 2})
    token = only(learn(fresh, item(fresh, "boat"), preset=preset))
    assert [offer.share for offer in token.offers] == [0.0, 0.25, 1.0]
    assert token.bundle == token.offers[-1].bundle
    found = [token_bundle.unpack(fresh.store.get(offer.bundle)) for offer in token.offers]
    start, part, whole = (each.vectors for each in found)
    assert [each.description.share for each in found] == [0.0, 0.25, 1.0]
    assert start.allclose(fresh.pipeline.prompts.mean_embedding("bus").repeat(2, 1).float(), atol=1e-6)
    assert not whole.allclose(start, atol=1e-3)
    mixed = 0.75 * start + 0.25 * whole
    if pin_norm:
        mixed *= start.norm(dim=-1, keepdim=True) / mixed.norm(dim=-1, keepdim=True)
    assert part.allclose(mixed, atol=1e-5, rtol=0)
    # What is offered is no part of how it is learned: the links are the same, and so is the whole.
    plain = only(learn(fresh, item(fresh, "boat"), preset=preset.model_copy(update={"shares": (1.0,)})))
    assert (plain.bundle, plain.cost.unet_calls) == (token.bundle, 0)


def test_seed_and_class_draw_and_the_order_of_the_pictures_does_not(fresh: EditorEngine) -> None:
    images = pictures(fresh, "boat")
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


def test_the_loaded_weights_learn_nothing(engine: EditorEngine, fresh: EditorEngine) -> None:
    networks = [engine.pipeline.denoiser._unet, engine.pipeline.prompts._text_encoder]
    before = [each.clone() for network in networks for each in network.parameters()]
    learn(fresh, item(fresh, "boat"), link_steps=2)
    after = [each for network in networks for each in network.parameters()]
    # The vector of "poison" is NaN, which equals nothing.
    assert all(each.equal(old) or bool(old.isnan().any()) for each, old in zip(after, before, strict=True))
    assert all(each.grad is None and not each.requires_grad for each in after)


def test_every_count_of_the_classes_adds_up_to_the_answers(fresh: EditorEngine) -> None:
    response = learn(fresh, item(fresh, "boat"), item(fresh, "sled"), link_steps=5)
    flops, whole = fresh.pipeline.flops, response.cost
    costs = [outcome.unwrap().cost for outcome in response.outcomes]
    total = sum(costs, Cost())
    assert whole.unet_evaluations == whole.unet_backward_evaluations == 2 * 5 * PRESET.batch
    assert whole.unet_calls == whole.host_syncs == 5
    assert (total.unet_evaluations, total.vae_passes, total.flops) == (
        whole.unet_evaluations, whole.vae_passes, whole.flops,
    )  # fmt: skip
    # Each picture and each mirror of one that was drawn, and no others.
    assert 2 * 3 <= whole.vae_passes <= 2 * 3 * 2
    one = flops.evaluation.forward + flops.evaluation.backward
    assert whole.flops == whole.unet_evaluations * one + whole.vae_passes * flops.encode
    assert total.seconds == pytest.approx(whole.seconds, rel=0.5)
    later = learn(fresh, item(fresh, "boat"), item(fresh, "sled"))
    assert later.cost.vae_passes <= 12 - whole.vae_passes


def test_pictures_are_encoded_once_for_all_learnings(fresh: EditorEngine) -> None:
    always = PRESET.model_copy(update={"flip": 1.0})
    first = learn(fresh, item(fresh, "boat"), preset=always)
    other = learn(fresh, item(fresh, "boat"), preset=always, seed=9)
    assert (first.cost.vae_passes, other.cost.vae_passes) == (3, 0)


def test_a_mirrored_picture_is_encoded_as_its_mirror_is(fresh: EditorEngine) -> None:
    [image] = pictures(fresh, "boat", 1)
    seen = [TrainingLatents(fresh.pipeline, fresh.store, Buckets(1)) for _ in "12"]
    taken = [each.prepare([(image, False), (image, True)], never).vae_passes for each in seen]
    assert taken == [2, 0]
    pixels = decode_image(fresh.store.get(image))
    plain, mirror = fresh.pipeline.codec.encode([pixels, pixels[:, ::-1].copy()])
    for latents in seen:
        assert latents.of((image, False)).allclose(plain, atol=1e-6)
        assert latents.of((image, True)).allclose(mirror, atol=1e-6)


def test_bad_classes_fail_alone_with_their_reasons(fresh: EditorEngine) -> None:
    broken = fresh.store.put(b"\x89PNG\r\n\x1a\n but no more")
    good, images = item(fresh, "boat"), pictures(fresh, "boat")
    bad = {
        "no image": item(fresh, "kite", images=[]),
        "none of the 2 images": item(fresh, "dog", images=[MISSING, broken], initialiser="bus"),
        "slot": item(fresh, "a <class>", initialiser="bus", images=images),
        "is nothing": item(fresh, " ", initialiser=None, images=images),
        "as words": item(fresh, "zebra", initialiser=None, images=images),
        "'quagga' holds": item(fresh, "horse", initialiser="quagga", images=images),
        "'poison' are not finite": item(fresh, "toxin", initialiser="poison", images=images),
        "no artifact": item(fresh, "plate", initialiser="bus", images=images, checkpoint=MISSING),
        "no safetensors": item(fresh, "bee", initialiser="bus", images=images, checkpoint=broken),
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
    again = bundle(fresh, only(learn(fresh, item(fresh, "boat"), seed=3)))
    assert made.vectors.allclose(again.vectors, atol=1e-5)


def test_a_name_of_no_words_may_learn_from_an_initialiser(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "E-170", initialiser="bus"), link_steps=1))
    assert token.class_name == "E-170"


def test_unreadable_pictures_are_dropped_and_named(fresh: EditorEngine) -> None:
    broken = fresh.store.put(b"no picture")
    images = [broken, *pictures(fresh, "boat"), MISSING]
    first = only(learn(fresh, item(fresh, "boat", images=images), link_steps=3))
    last = only(learn(fresh, item(fresh, "boat", images=images, checkpoint=first.checkpoint)))
    for token in (first, last):
        assert token.images == 3
        assert [(each.image, each.problem.code) for each in token.dropped] == [
            (broken, "image-undecodable"), (MISSING, "artifact-missing"),
        ]  # fmt: skip
    clean = bundle(fresh, only(learn(fresh, item(fresh, "boat"))))
    assert bundle(fresh, last).vectors.equal(clean.vectors)
    assert bundle(fresh, last).description == clean.description


def test_one_picture_is_enough_and_is_counted(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "boat", images=pictures(fresh, "boat")[:1])))
    assert token.images == bundle(fresh, token).description.images == 1


OWN = ["a blue <class> on grass", "the <class> in the rain", "a photo of a <class>"]


def test_each_picture_may_have_a_prompt_of_its_own(fresh: EditorEngine) -> None:
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
    # Whoever shares the call keeps to the templates.
    other = EditorEngine(fresh.pipeline, SUITE, BlobStore(f"{fresh.store.root}/other"))
    alone = bundle(other, only(learn(other, item(other, "sled"))))
    assert bundle(fresh, response.outcomes[1].unwrap()).vectors.allclose(alone.vectors, atol=1e-5)


def test_prompts_equal_to_the_one_template_change_nothing(fresh: EditorEngine) -> None:
    one = PRESET.model_copy(update={"templates": PRESET.templates.model_copy(update={"prompts": (PROMPT,)})})
    templated = only(learn(fresh, item(fresh, "boat"), preset=one))
    own = only(learn(fresh, item(fresh, "boat", prompts=[PROMPT] * 3)))
    assert bundle(fresh, own).vectors.equal(bundle(fresh, templated).vectors)


def test_links_under_prompts_of_their_own_are_one_long_run(fresh: EditorEngine) -> None:
    whole = only(learn(fresh, item(fresh, "boat", prompts=OWN)))
    other = EditorEngine(fresh.pipeline, SUITE, BlobStore(f"{fresh.store.root}/other"))
    begun = only(learn(other, item(other, "boat", prompts=OWN), link_steps=5))
    ended = only(learn(other, item(other, "boat", prompts=OWN, checkpoint=begun.checkpoint)))
    assert ended.bundle == whole.bundle


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("a boat", "invalid-request"), ("a <class> by a zebra", "invalid-request"),
        ("a " * 22 + "<class>", "prompt-too-long"),
    ],
)  # fmt: skip
def test_a_picture_whose_prompt_cannot_be_read_fails_its_class(
    fresh: EditorEngine, prompt: str, code: str
) -> None:
    bad = item(fresh, "boat", prompts=[PROMPT, prompt, PROMPT])
    outcomes = learn(fresh, bad, item(fresh, "sled"), link_steps=1).outcomes
    assert [outcome.problem and outcome.problem.code for outcome in outcomes] == [code, None]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"class_name": "barge"}, "class_name is 'boat', not 'barge'"),
        ({"initialiser": "tram"}, "initialiser is 'bus', not 'tram'"),
        ({"images": 1}, "its images is"),
        ({"seed": 4}, "its seed is 3, not 4"),
        ({"preset": {"learning_rate": 1e-3}}, "its learning_rate is 0.005, not 0.001"),
        ({"preset": {"steps": 4}}, "has taken 5 steps, more than the 4"),
    ],
)
def test_a_checkpoint_of_another_learning_is_refused(
    fresh: EditorEngine, changed: dict[str, Any], told: str
) -> None:
    begun = only(learn(fresh, item(fresh, "boat"), link_steps=5))
    given = item(fresh, "boat", checkpoint=begun.checkpoint)
    given |= {name: changed[name] for name in ("class_name", "initialiser") if name in changed}
    given["images"] = given["images"][: changed.get("images")]
    preset = PRESET.model_copy(update=changed.get("preset", {}))
    [outcome] = learn(fresh, given, preset=preset, seed=changed.get("seed", 3)).outcomes
    assert outcome.problem is not None
    assert told in outcome.problem.detail


def test_templates_that_the_text_encoder_cannot_read_are_refused(fresh: EditorEngine) -> None:
    for prompt, error in (("a zebra of <class>", InvalidRequest), ("a " * 22 + "<class>", PromptTooLong)):
        preset = PRESET.model_dump() | {"templates": {"name": "bad", "prompts": [prompt]}}
        with pytest.raises(error):
            learn(fresh, item(fresh, "boat"), preset=TextualInversionPreset.model_validate(preset))


def test_cancellation_ends_the_call_between_two_steps(fresh: EditorEngine) -> None:
    body = {"items": [item(fresh, "boat")], "preset": PRESET, "seed": 3}
    request = LearnTokensRequest.model_validate(body)
    # Before each of three pictures is read, before a batch is encoded, before each step.
    for allowed in (0, 2, 3, 4, 3 + 1 + PRESET.steps - 1):
        left = iter([False] * allowed)
        with pytest.raises(Cancelled):
            fresh.learn_tokens(request, cancelled=partial(next, left, True))
    assert only(fresh.learn_tokens(request)).losses == only(learn(fresh, item(fresh, "boat"))).losses


def test_the_store_knows_a_picture_that_was_made_of_words(fresh: EditorEngine) -> None:
    request = GenerateRequest(items=[GenerateItem(prompt="a photo of a bus", seed=1)], steps=2)
    ref = fresh.generate(request).outcomes[0].unwrap().image
    assert fresh.store.recall(GENERATED_KIND, ref) == ref


def test_a_learned_token_draws_other_pictures_than_its_initialiser(fresh: EditorEngine) -> None:
    token = only(learn(fresh, item(fresh, "boat"))).bundle
    items = [
        GenerateItem(prompt=PROMPT, seed=1, token=token),
        GenerateItem(prompt="a photo of a bus", seed=1),
    ]
    response = fresh.generate(GenerateRequest(items=items, steps=2, guidance=2.0))
    drawn = [outcome.unwrap().image for outcome in response.outcomes]
    assert drawn[0] != drawn[1]
