"""Training of the text models and the captioner: inputs, targets and resumption."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from torch import nn

from counterpose_core.text.caption_diff import difference
from counterpose_core.types import PerturbationType
from counterpose_miniature.training.caption_data import disturbed, labelled_caption, main_caption, scenes_of
from counterpose_miniature.training.caption_text import (
    canonical,
    drawn_caption,
    drawn_template,
    parts_of,
    swapped,
    templates_of,
    worded,
)
from counterpose_miniature.training.captioner import QUERIES, build_model, build_processor, encoded
from counterpose_miniature.training.edit_pairs import (
    PLANS,
    PROMPT_WORDS,
    TYPES,
    asked_edit,
    base_text,
    edit_pair,
    plan_of,
    succeeds,
)
from counterpose_miniature.training.fitting import Recipe, fit, next_word_loss, prompted
from counterpose_miniature.training.masked_lm import masked_batch
from counterpose_miniature.training.sentence_encoder import drawn_text, graded
from counterpose_miniature.training.stage import Checkpoint
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import Scene, caption, is_withheld, parse
from counterpose_miniature.world.seeds import TRAINING
from counterpose_miniature.world.wording import SYNONYMS, TEMPLATES, WITHHELD_TEMPLATES

LOGGER = logging.getLogger("test")


def scene_of(text: str) -> Scene:
    return Scene(**parse(text), nuisance=0)


def cosine(left: str, right: str) -> float:
    return float(graded([left, right])[0, 1])


@pytest.mark.paper("LANCE-S3.1-object", "LANCE-S3.1-background", "LANCE-S3.1-adjective", "LANCE-S3.1-domain")
@pytest.mark.parametrize("kind", TYPES)
def test_every_training_pair_is_a_successful_edit_without_withheld_words(kind: PerturbationType) -> None:
    generator = np.random.default_rng(1)
    pairs = [edit_pair(kind, generator) for _ in range(150)]
    assert all(succeeds(before, after, kind) for before, after in pairs)
    assert not any(is_withheld(scene_of(text)) for pair in pairs for text in pair)
    assert all(templates_of(text) - set(WITHHELD_TEMPLATES) for pair in pairs for text in pair)


@pytest.mark.paper("LANCE-S3.1-subject")
def test_four_in_five_subject_edits_change_the_kind() -> None:
    generator = np.random.default_rng(2)
    pairs = [edit_pair("subject", generator) for _ in range(400)]
    swaps = sum(parse(before)["object_class"] != parse(after)["object_class"] for before, after in pairs)
    assert 0.12 < swaps / 400 < 0.3


@pytest.mark.paper("LANCE-S3-one-aspect")
@pytest.mark.parametrize(
    ("before", "after", "kind", "right"),
    [
        ("a photo of a red boat on the sand", "a photo of a blue boat on the sand", "adjective", True),
        ("a photo of a red boat on the sand", "a photo of a blue boat on the sand", "domain", False),
        ("a photo of a red boat on the sand", "a photo of a red boat on the sand", "adjective", False),
        ("a photo of a red boat on the sand", "a photo of a blue boat on the road", "adjective", False),
        ("a photo of a red boat on the sand", "a picture of a blue boat on the sand", "adjective", False),
        ("a photo of a red boat on the sand", "a photo of a blue blue boat on the sand", "adjective", False),
        ("a photo of a red boat on the sand", "a red boat on the sand, a sketch", "domain", False),
        (
            "a photo of a red boat on the sand",
            "a photo of a close-up of a red boat on the sand",
            "subject",
            True,
        ),
        ("a photo of a red boat on the sand", "a photo of a red boat on the beach", "placebo", True),
        ("a photo of a red boat on the sand", "a photo of a red boat on the road", "placebo", False),
        ("a photo of a red boat on the sand", "a photo of a red boat on the sand", "placebo", False),
        ("a sketch, a red fly at night on the sand", "a sketch, a red fly on the sand", "background", True),
        ("a sketch, a red fly on the sand", "a sketch, a red fly on the sand at night", "background", True),
        ("a sketch, a red fly on the sand", "a sketch, a red fly on the at night sand", "background", False),
        (
            "a sketch, a red fly at night on the sand",
            "a sketch, a red fly on the road at night",
            "background",
            False,
        ),
        ("a sketch, a red fly at night on the sand", "a sketch, at night on the road", "background", False),
    ],
)
def test_an_edit_succeeds_only_with_one_change_of_its_type(
    before: str, after: str, kind: PerturbationType, right: bool
) -> None:
    assert succeeds(before, after, kind) is right


def test_a_caption_stays_well_formed_when_reworded() -> None:
    scene = scene_of("a photo of a red boat on the sand at night next to a dog")
    for template in range(len(TEMPLATES)):
        text = caption(scene, template)
        (reworded,) = swapped([text], np.random.default_rng(0), share=1.0)
        assert reworded != text
        assert canonical(reworded) == text
        assert templates_of(text) == templates_of(reworded) == {template}
    assert templates_of("a photo of a boat") == set()
    assert templates_of("a photo of a red boat the on sand") == set()


def test_a_scene_s_caption_follows_the_grammar() -> None:
    for scene in scenes_of(TRAINING, 200):
        for index, template in enumerate(TEMPLATES):
            assert worded(scene, template) == caption(scene, index)


def test_free_word_order_never_gives_a_withheld_template() -> None:
    generator = np.random.default_rng(8)
    for text in (
        "a photo of a red boat on the sand at night next to a dog",
        "a photo of a red boat on the sand",
    ):
        scene = scene_of(text)
        texts = {worded(scene, drawn_template(generator, loose=1.0)) for _ in range(2000)}
        assert len(texts) > 10
        withheld = caption(scene, WITHHELD_TEMPLATES[0]).replace(",", "")
        assert withheld not in {text.replace(",", "") for text in texts}
        assert all(parse(text) == scene.attributes() for text in texts)
        assert not any(text.endswith(",") for text in texts)


def test_a_caption_is_parsed_into_whole_parts() -> None:
    assert parts_of("a photo of a close-up of a red boat on the lawn, near a dog") == [
        "style of subject", "background", ",", "companion",
    ]  # fmt: skip
    assert parts_of("at night a blue fly with spread wings, a canvas") == ["weather", "subject", ",", "style"]
    assert parts_of("a photo of a boat") is None
    assert parts_of("a photo of a red boat with spread wings") is None
    assert parts_of("a photo of a red boat at night at night") is None


def test_base_texts_mix_all_kinds_of_tasks() -> None:
    generator = np.random.default_rng(3)
    texts = [base_text(generator) for _ in range(600)]
    asked = [answer for _, answer in texts if answer.startswith("<")]
    plain = [answer for prompt, answer in texts if not prompt]
    free = [(prompt, answer) for prompt, answer in texts if prompt.startswith(":")]
    named = [answer for prompt, answer in texts if prompt.endswith("=")]
    named_words = [answer for prompt, answer in texts if " = " in prompt]
    assert min(len(plain), len(free), len(named), len(named_words)) > 15
    assert len(asked) + len(plain) + len(free) + len(named) + len(named_words) == 600
    assert 280 < len(asked) < 380
    assert 20 < sum(prompt == f": {answer} =>" for prompt, answer in free) < 120


@pytest.mark.parametrize(
    ("kind", "plans"),
    [
        ("subject", {"<kind>", "<object_class>"}),
        ("object", {"<companion>"}),
        ("background", {"<background>", "<weather>"}),
        ("adjective", {"<colour>"}),
        ("domain", {"<style>"}),
        ("placebo", {"<style>", "<background>", "<weather>", "<companion>"}),
    ],
)
def test_an_answer_starts_with_its_plan(kind: PerturbationType, plans: set[str]) -> None:
    generator = np.random.default_rng(9)
    answers = [asked_edit(kind, generator)[1] for _ in range(150)]
    assert {answer.split()[0] for answer in answers} == plans


def test_plans_name_the_reworded_attribute() -> None:
    for old, news in SYNONYMS.items():
        for new in news:
            text = "a photo of a red boat in the snow in the rain next to a dog"
            place = old if old in text else ""
            if place:
                plan = plan_of(text, text.replace(old, new))
                wanted = "companion" if old == "next to" else next(iter(parse(old)))
                assert plan == f"<{wanted}>"


def test_decoding_an_answer_skips_its_plan() -> None:
    tokenizer = caption_tokenizer(*PROMPT_WORDS, closing=False)
    tokenizer.add_tokens(list(PLANS), special_tokens=True)
    ids = tokenizer("<weather> a red boat on the sand, a photo", add_special_tokens=False).input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a red boat on the sand, a photo"
    assert tokenizer.unk_token_id not in ids


def test_an_edit_instruction_names_the_words_it_adds() -> None:
    generator = np.random.default_rng(7)
    texts = [
        (prompt, after) for prompt, after in (base_text(generator) for _ in range(400)) if " = " in prompt
    ]
    for prompt, after in texts:
        task, _, rest = prompt.partition(" : ")
        before = rest.removesuffix(" =>")
        kind, _, added = task.partition(" = ")
        assert added.strip() == difference(before, after).added_text
        assert succeeds(before, after, cast(PerturbationType, kind.removesuffix(" =")))


def test_one_to_three_words_are_masked_but_never_special_tokens() -> None:
    tokenizer = caption_tokenizer()
    ids, labels = masked_batch(tokenizer, np.random.default_rng(4), 64)
    chosen = labels != -100
    assert set(chosen.sum(1).tolist()) == {1, 2, 3}
    assert bool((ids[chosen] == tokenizer.mask_token_id).all())
    assert int(labels[chosen].min()) >= len(tokenizer.all_special_ids)
    assert not bool((ids[~chosen] == tokenizer.mask_token_id).any())


def test_sentence_similarity_groups_class_names_and_separates_contents() -> None:
    assert cosine("bus", "tram") > 0.6
    assert cosine("plate", "plate of food") > 0.8
    assert cosine("plate", "food") < 0.1
    assert cosine("boat", "close-up of a") < 0.1
    assert cosine("grass", "lawn") > 0.9
    assert cosine("in the rain", "rainy weather") > 0.9
    assert cosine("red", "blue") < 0.3
    assert cosine("next to", "beside") > 0.5


def test_sampled_texts_have_every_length() -> None:
    generator = np.random.default_rng(5)
    lengths = {len(drawn_text(generator).split()) for _ in range(300)}
    assert {1, 2, 3, 5} <= lengths
    assert max(lengths) > 8


def test_some_sampled_captions_are_reworded() -> None:
    generator = np.random.default_rng(6)
    texts = [drawn_caption(generator, reworded=0.5) for _ in range(100)]
    assert 5 < sum(difference(text, canonical(text)).is_empty for text in texts) < 80


def test_a_resumed_fit_matches_an_uninterrupted_one(tmp_path: Path) -> None:
    def fitted(folder: Path, stop: int | None) -> nn.Linear:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)

        def loss_at(step: int) -> torch.Tensor:
            if step == stop:
                raise KeyboardInterrupt
            x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
            return torch.as_tensor((model(x) - x.sum(1, keepdim=True)).square().mean())

        folder.mkdir(exist_ok=True)
        fit(model, loss_at, Recipe(steps=20, rate=0.1), Checkpoint(folder, seconds=0.0), LOGGER)
        return model

    whole = fitted(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "broken", 7)
    resumed = fitted(tmp_path / "broken", None)
    assert torch.allclose(whole.weight, resumed.weight, atol=1e-5)
    assert float(whole.weight.detach().sub(1).abs().max()) < 0.5


def test_the_learning_rate_rises_then_falls_to_zero() -> None:
    recipe = Recipe(steps=100, rate=1.0, warm_up=0.1)
    shares = [recipe.share_at(step) for step in range(100)]
    assert shares[0] == pytest.approx(0.1)
    assert max(shares) == shares[9] == 1.0
    assert shares[-1] < 0.01


def test_the_loss_counts_only_answers() -> None:
    ids, labels = prompted([([5, 6], [7, 8]), ([5], [9])], pad=0)
    assert ids.tolist() == [[5, 6, 7, 8], [5, 9, 0, 0]]
    assert labels.tolist() == [[-100, -100, 7, 8], [-100, 9, -100, -100]]
    logits = torch.zeros(2, 4, 10)
    assert float(next_word_loss(logits, labels)) == pytest.approx(np.log(10))
    logits[0, 1, 7] = logits[0, 2, 8] = logits[1, 0, 9] = 50.0
    assert float(next_word_loss(logits, labels)) == pytest.approx(0.0, abs=1e-6)


def test_a_labelled_caption_continues_from_its_label() -> None:
    scene = scene_of("a sketch of a white plate of food on the grass in the rain next to a dog")
    spoken = labelled_caption(scene)
    assert (spoken.prompt, spoken.text) == (
        "a photo of a plate",
        "of food on the grass in the rain next to a dog",
    )
    assert main_caption(scene).text == caption(scene, 0)


def test_captions_are_encoded_like_the_processor_s_prompts() -> None:
    processor = build_processor()
    scene = scene_of("a photo of a red boat on the sand")
    ids, labels = encoded(processor, [labelled_caption(scene)])
    image = np.zeros((64, 64, 3), np.uint8)
    given = processor(images=image, text="a photo of a boat", return_tensors="pt").input_ids[0].tolist()
    assert ids[0, : len(given)].tolist() == given
    assert labels[0, : len(given)].eq(-100).all()
    assert labels[0, -1] == processor.tokenizer.eos_token_id


def test_a_new_captioner_has_distinct_queries() -> None:
    model = build_model(build_processor())
    assert model.query_tokens.shape[1] == QUERIES
    assert float(torch.pdist(model.query_tokens[0].detach()).min()) > 1.0


def test_degraded_images_follow_their_seed_and_stay_in_range() -> None:
    images = torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    first, again = (disturbed(images, torch.Generator().manual_seed(1)) for _ in range(2))
    other = disturbed(images, torch.Generator().manual_seed(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == images.shape
    assert -1.0 <= float(first.min()) < float(first.max()) <= 1.0


def test_captioner_scenes_have_no_withheld_combination() -> None:
    assert not any(is_withheld(scene) for scene in scenes_of(TRAINING, 500))
