"""The baselines: what information each of them uses, and what it must not use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.contract.editor import GenerateRequest
from counterpose_core.contract.runs import Item
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.scene import VALUES
from evaluation.tests.fakes.validity import change, contestant, item, scene, truth
from evaluation.validity import generation
from evaluation.validity.baselines import drawn_means, random_word_means, type_means
from evaluation.validity.changes import Cell, Row, rows_of
from evaluation.validity.contestants import Contestant
from evaluation.validity.generation import IMAGES, drawn_by, images_of, prompt_of, prompts_of, request_of
from evaluation.validity.measures import Floats
from evaluation.validity.report import Absent
from evaluation.validity.truth import CLASSES, Images, Predict

BOAT_ROW = Row(
    Cell("model", "boat", "background", "background", "water", "removed"),
    np.full(20, 0.5),
    np.full(20, 0.5),
    {("water", "grass"): 0.75, ("water", "sand"): 0.25},
)


def replaced(before: float, after: float, *, source: int, state: str = "done", label: str = "boat") -> Item:
    """An edit that replaces a random word of a caption, for one classifier."""
    shown = scene(label, nuisance=source)
    made = item(shown, None, edit_type=None, p=({"model": before}, {"model": after}), state=state)
    return made.model_copy(update={"kind": "lance-r"})


@contextmanager
def taking_all_for_boats(_: Contestant) -> Iterator[Predict]:
    """A classifier that gives 0.8 to boat and 0.1 to tram for every image."""

    def predict(images: Images) -> Floats:
        odds = np.zeros((len(images), len(CLASSES)))
        odds[:, CLASSES.index("boat")], odds[:, CLASSES.index("tram")] = 0.8, 0.1
        return odds

    yield predict


def test_the_edit_type_mean_ignores_the_classifier() -> None:
    cells = [
        Cell(name, "boat", kind, "a", "v", "removed") for name in "mn" for kind in ("background", "domain")
    ]
    rows = [
        Row(cell, np.array([drop]), np.zeros(1))
        for cell, drop in zip(cells, (0.1, 0.5, 0.3, 0.7), strict=True)
    ]
    assert type_means(rows).tolist() == pytest.approx([0.2, 0.6, 0.2, 0.6])


def test_lance_r_predicts_the_mean_drop_of_classifier_and_class() -> None:
    items = [
        replaced(0.9, 0.5, source=0),
        replaced(0.9, 0.7, source=0),
        replaced(0.9, 0.8, source=1),
        replaced(0.9, 0.0, source=2, state="filtered"),
        replaced(0.9, 0.0, source=3, label="tram"),
    ]
    found = random_word_means([BOAT_ROW, BOAT_ROW], items)
    assert not isinstance(found, Absent)
    assert found.tolist() == pytest.approx([0.2, 0.2])


def test_lance_r_is_absent_without_edits_of_a_class() -> None:
    assert isinstance(random_word_means([BOAT_ROW], [replaced(0.9, 0.1, source=0, label="tram")]), Absent)


def test_class_name_generation_weighs_value_pairs_like_the_cell() -> None:
    p = {"water": 0.9, "grass": 0.5, "sand": 0.1}
    drawn = {prompt_of("boat", "background", value): np.full(IMAGES, each) for value, each in p.items()}
    found = drawn_means([BOAT_ROW], {"model": drawn})
    assert not isinstance(found, Absent)
    assert found.tolist() == pytest.approx([0.75 * 0.4 + 0.25 * 0.8])


def test_class_name_generation_is_absent_without_a_generator() -> None:
    assert isinstance(drawn_means([BOAT_ROW], None), Absent)


def test_a_cell_knows_the_share_of_sources_for_each_value_pair() -> None:
    scenes = [scene(nuisance=number) for number in range(2)]
    edits = [change(0), change(0, added="sand"), change(1)]
    rows = rows_of(edits, {"model": truth(scenes, {})}, least=2)
    pairs = next(row.pairs for row in rows if row.cell.side == "removed")
    assert pairs == pytest.approx({("water", "grass"): 0.75, ("water", "sand"): 0.25})


@pytest.mark.parametrize("attribute", [name for name in VALUES if name != "object_class"])
def test_a_prompt_names_only_its_class_and_value(attribute: str) -> None:
    unspoken = {"kind": "plain", "weather": "clear", "companion": "none", "style": "photo"}
    for object_class in CLASSES:
        for value in VALUES[attribute]:
            told = parse(prompt_of(object_class, attribute, value))
            assert told == unspoken | {"object_class": object_class, attribute: value}


def test_values_without_words_in_captions_share_a_prompt() -> None:
    same = [("kind", "plain"), ("weather", "clear"), ("companion", "none"), ("style", "photo")]
    assert {prompt_of("boat", *pair) for pair in same} == {"a photo of a boat"}


def test_cells_of_all_classifiers_share_prompts() -> None:
    other = Row(
        Cell("other", *list(vars(BOAT_ROW.cell).values())[1:]),
        BOAT_ROW.estimated,
        BOAT_ROW.true,
        BOAT_ROW.pairs,
    )
    assert len(prompts_of([BOAT_ROW, other])) == 3


def test_every_image_starts_from_different_noise() -> None:
    seeds = [
        one.seed for prompt in ("a photo of a boat", "a photo of a tram") for one in request_of(prompt).items
    ]
    assert len(set(seeds)) == 2 * IMAGES >= 40


def test_existing_images_are_not_generated_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def draw(request: GenerateRequest) -> Images:
        asked.append(request.items[0].prompt)
        if request.items[0].prompt == "killed":
            raise KeyboardInterrupt
        return np.full((len(request.items), 2, 2, 3), len(asked), dtype=np.uint8)

    with pytest.raises(KeyboardInterrupt):
        images_of(["first", "killed"], tmp_path, draw)
    found = images_of(["first", "second"], tmp_path, draw)
    assert sorted(asked) == ["first", "killed", "second"]
    assert found["first"].shape == (IMAGES, 2, 2, 3)


def test_each_classifier_is_scored_on_the_prompt_s_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = contestant("model")
    monkeypatch.setattr(type(one), "digest", "0" * 64)
    monkeypatch.setattr(generation, "predicting", taking_all_for_boats)
    images = {f"a photo of a {name}": np.zeros((3, 2, 2, 3), dtype=np.uint8) for name in ("boat", "tram")}
    found: Mapping[str, Mapping[str, Floats]] = drawn_by([one], images, tmp_path)
    assert found["model"]["a photo of a boat"].tolist() == [0.8] * 3
    assert found["model"]["a photo of a tram"].tolist() == [0.1] * 3
