"""No model that generates, captions, edits or judges images is trained on a withheld combination."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from counterpose_miniature.training.caption_data import scenes_of
from counterpose_miniature.training.caption_text import drawn_caption, drawn_scene, parts_of
from counterpose_miniature.training.clip import paired_scenes
from counterpose_miniature.training.edit_pairs import TYPES, asked_edit, base_text, edit_pair
from counterpose_miniature.training.images import caption_variants, generator_scenes
from counterpose_miniature.training.sentence_encoder import drawn_text
from counterpose_miniature.world import UNIFORM, Scene, parse, sample_scene
from counterpose_miniature.world.scene import WITHHELD, is_withheld
from counterpose_miniature.world.seeds import DEVELOPMENT, TRAINING, VALIDATION, SeedRange

SCENES: dict[str, Callable[[SeedRange], list[Scene]]] = {
    "generator": lambda split: generator_scenes(range(90), split),
    "captioner": lambda split: scenes_of(split, 90),
    "perturber": lambda split: [drawn_scene(np.random.default_rng([split.start, i])) for i in range(90)],
}


def withheld_in(text: str) -> list[tuple[str, str, str]]:
    """Withheld combinations named by a text, which is a caption or a part of one."""
    said = parse(text)
    return [each for each in WITHHELD if said.get("object_class") == each[0] and said.get(each[1]) == each[2]]


def edits(generator: np.random.Generator) -> Iterator[str]:
    for kind in TYPES:
        for _ in range(9):
            yield from edit_pair(kind, generator, loose=0.4)


def answers(generator: np.random.Generator) -> Iterator[str]:
    for kind in TYPES:
        for _ in range(9):
            prompt, answer = asked_edit(kind, generator, loose=0.4)
            yield prompt.partition(" : ")[2].removesuffix(" =>")
            yield answer.partition("> ")[2]


def base(generator: np.random.Generator) -> Iterator[str]:
    for _ in range(90):
        prompt, answer = base_text(generator)
        texts = (prompt.rpartition(": ")[2].removesuffix(" =>"), answer.rpartition("> ")[2])
        # Copying is also trained on words in random order, which describe no scene.
        yield from (text for text in texts if parts_of(text))


TEXTS: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "captions of the masked language model": lambda g: (drawn_caption(g) for _ in range(90)),
    "captions in a free order": lambda g: (drawn_caption(g, loose=1.0) for _ in range(100)),
    "the perturber's pairs": edits,
    "the perturber's answers": answers,
    "the perturber's base": base,
    "the sentence encoder's texts": lambda g: (drawn_text(g) for _ in range(200)),
}


def test_the_check_finds_withheld_texts() -> None:
    for object_class, attribute, value in WITHHELD:
        scene = Scene("tram", "plain", "red", "grass", "clear", "photo", "none", nuisance=0)
        shown = scene.changed("object_class", object_class).changed(attribute, value)
        assert all(withheld_in(text) for text in caption_variants(shown))
        assert not any(withheld_in(text) for text in caption_variants(scene))


@pytest.mark.parametrize("split", [TRAINING, DEVELOPMENT, VALIDATION], ids=lambda split: split.name)
@pytest.mark.parametrize("model", sorted(SCENES))
def test_scenes_of_generative_models_are_not_withheld(model: str, split: SeedRange) -> None:
    assert not any(is_withheld(scene) for scene in SCENES[model](split))


def test_every_eighth_uniform_scene_would_be_withheld() -> None:
    generator = np.random.default_rng(0)
    assert 30 < sum(is_withheld(sample_scene(generator, UNIFORM)) for _ in range(400)) < 70


def test_clip_s_neighbours_differ_in_one_attribute_and_are_not_withheld() -> None:
    scenes = paired_scenes(60, seed=1)
    assert not any(is_withheld(scene) for scene in scenes)
    for base_scene, other in zip(scenes[::2], scenes[1::2], strict=True):
        before, after = base_scene.attributes(), other.attributes()
        assert sum(before[name] != after[name] for name in before) == 1
        assert base_scene.nuisance == other.nuisance


@pytest.mark.parametrize("source", sorted(TEXTS))
def test_texts_of_language_models_name_no_withheld_combination(source: str) -> None:
    texts = list(TEXTS[source](np.random.default_rng(4)))
    assert len(texts) >= 60
    assert [text for text in texts if withheld_in(text)] == []


def test_models_use_only_scenes_of_their_split() -> None:
    for make in (SCENES["generator"], SCENES["captioner"]):
        for split in (TRAINING, DEVELOPMENT):
            assert all(split.start <= scene.nuisance < split.stop for scene in make(split))
