"""Edits and reconstructions: what the oracle sees against the request, kept and unfiltered."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.tests.fakes.validity import change, item, judgement, scene, truth
from evaluation.validity import edit_figures
from evaluation.validity.judging import judge, judged
from evaluation.validity.reconstructions import reconstruction

BEFORE = scene()
SANDY = BEFORE.changed("background", "sand")
EDIT = item(BEFORE, SANDY)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_an_edit_that_shows_its_counterfactual_is_good() -> None:
    found = judge(EDIT, BEFORE, SANDY.attributes())
    assert (found.success, found.fidelity, found.label, found.good) == (True, True, True, True)


def test_an_edit_without_effect_has_fidelity_but_no_success() -> None:
    found = judge(EDIT, BEFORE, BEFORE.attributes())
    assert (found.success, found.fidelity, found.good) == (False, True, False)


def test_an_edit_with_a_side_effect_lacks_fidelity() -> None:
    found = judge(EDIT, BEFORE, SANDY.changed("colour", "blue").attributes())
    assert (found.success, found.fidelity, found.label) == (True, False, True)


def test_an_edit_that_shows_another_class_lost_its_label() -> None:
    found = judge(EDIT, BEFORE, SANDY.changed("object_class", "tram").attributes())
    assert (found.label, found.good) == (False, False)


def test_items_without_an_image_are_not_judged() -> None:
    assert judged([EDIT], {"b" * 64: BEFORE}, {}) == {}


def test_figures_count_both_kept_and_generated_edits() -> None:
    planned = [item(scene(nuisance=at), SANDY, name=f"item-{at}") for at in range(3)]
    planned[2] = planned[2].model_copy(update={"state": "filtered", "reason": "gate-direction"})
    unmade = planned[0].model_copy(
        update={"id": "unmade", "state": "filtered", "reason": "no-edit", "result": None}
    )
    judgements = {
        "item-0": judgement(source="0"),
        "item-1": judgement(source="1"),
        "item-2": judgement(source="2", good=False, kept=False),
    }
    found = edit_figures.by_type([*planned, unmade], judgements, rng())["background"]
    assert (found.kept.estimate, found.kept.n) == (0.5, 4)
    assert (found.fidelity.estimate, found.fidelity.n) == (1.0, 2)
    assert found.fidelity_unfiltered.estimate == pytest.approx(2 / 3)
    assert found.fidelity_unfiltered.n == 3


def test_types_without_planned_edits_have_no_row() -> None:
    assert set(edit_figures.by_type([EDIT], {}, rng())) == {"background", "all"}


def test_withheld_combinations_have_separate_figures() -> None:
    sled = scene("sled", nuisance=1)
    entering = item(sled, sled.changed("background", "sand"), name="entering")
    scenes = {"b" * 64: sled}
    judgements = {"entering": judgement(good=False)}
    found = edit_figures.by_novelty([entering], judgements, scenes, rng())
    assert (found["withheld"].fidelity.n, found["seen"].fidelity.n) == (1, 0)


def test_gate_precision_and_recall_count_good_edits() -> None:
    found = edit_figures.image_gate(
        [
            judgement(source="a"),
            judgement(source="b"),
            judgement(source="c", good=False),
            judgement(source="d", kept=False),
            judgement(source="e", kept=False, good=False),
            judgement(source="f", edit_type="reconstruction"),
        ],
        rng(),
    )
    assert found.precision.estimate == pytest.approx(2 / 3)
    assert found.precision.n == 3
    assert found.recall.estimate == pytest.approx(2 / 3)
    assert found.recall.n == 3


def test_true_drops_reveal_a_gate_that_keeps_only_harmless_edits() -> None:
    sources = [scene(nuisance=at) for at in range(40)]
    edits = [change(at, added="grass" if at % 2 else "sand", kept=at % 2 == 0) for at in range(40)]
    truths = {"model": truth(sources, {("background", "grass"): 0.3})}
    found = edit_figures.selection([], edits, truths, rng())["background"]
    assert found.made.estimate == pytest.approx(0.3)
    assert found.kept.estimate == pytest.approx(0.0)


def test_planned_edits_that_are_not_a_single_change_are_counted() -> None:
    items = [EDIT, EDIT.model_copy(update={"id": "unmade", "result": None, "state": "filtered"})]
    truths = {"model": truth([BEFORE], {})}
    found = edit_figures.selection(items, [change(0)], truths, rng())
    assert (found["background"].unmade, found["all"].unmade) == (1, 1)


def test_drops_on_withheld_combinations_are_reported_separately() -> None:
    sources = [scene("sled", nuisance=at) for at in range(2)]
    edits = [
        change(0, object_class="sled", added="sand", drops={"model": 0.2}),
        change(1, object_class="sled", added="grass", drops={"model": 0.4}),
    ]
    truths = {"model": truth(sources, {("background", "grass"): 0.3})}
    found = edit_figures.drops_apart(edits, sources, truths, rng())
    assert (found["seen"].estimated.estimate, found["seen"].true.estimate) == pytest.approx((0.4, 0.6))
    assert found["withheld"].mean_absolute_error.estimate == pytest.approx(0.2)


def test_reconstruction_changes_are_counted_in_both_directions_and_net() -> None:
    cases = [(0.9, 0.9), (0.9, 0.1), (0.1, 0.9), (0.1, 0.1)]
    items = [
        item(
            scene(nuisance=at), None, name=str(at), kind="reconstruction", edit_type=None,
            p=({"model": before}, {"model": after}),
        )
        for at, (before, after) in enumerate(cases)
    ]  # fmt: skip
    shown = {
        "0": judgement(edit_type="reconstruction"),
        "1": judgement(edit_type="reconstruction", good=False),
    }
    found = reconstruction(items, ["model"], shown, rng())
    assert (found.changed.estimate, found.changed.n) == (0.5, 4)
    assert found.net.estimate == pytest.approx(0.0)
    assert found.changed_by_classifier["model"] == found.changed
    assert found.fidelity.estimate == 0.5
