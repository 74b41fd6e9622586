"""Yield and accuracy by class: each class on its own sources, before and after."""

from __future__ import annotations

import pytest

from counterpose_core.contract.stress_tests import ClassSummary
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}
HARDER = {"steady": 0.9, "leaning": 0.1}


def ledgered() -> Ledgered:
    """Four sleds, each with a kept background edit and two of them with a dropped one; three boats."""
    made = Ledgered()
    for number in range(4):
        _source(made, f"sled-{number}", "sled", HARDER if number == 2 else SHAKEN)
    for number in range(2):
        made.add(f"sled-{number}", edit_type="domain", state="filtered", reason="gate-direction")
    for number in range(3):
        _source(made, f"boat-{number}", "boat", None)
    return made


def _source(made: Ledgered, source: str, label: str, after: dict[str, float] | None) -> None:
    made.add(source, "reconstruction", label=label)
    made.add(source, "placebo", label=label)
    if after is None:
        made.add(source, edit_type="background", label=label, state="failed", code="x", result=None)
    else:
        made.add(source, edit_type="background", label=label, after=after)


def classes(made: Ledgered) -> dict[str, ClassSummary]:
    return summarize(recorded_run(fake_config(), made.items), made.items).classes


def test_classes_follow_dataset_order_and_skip_those_without_edits() -> None:
    assert list(classes(ledgered())) == ["sled", "boat"]


@pytest.mark.paper("LANCE-F7-histogram")
def test_the_yield_is_kept_over_decided_edits() -> None:
    found = classes(ledgered())
    assert (found["sled"].planned, found["sled"].kept) == (6, 4)
    assert found["sled"].yields.estimate == pytest.approx(4 / 6)
    assert found["sled"].yields.n == 6
    assert (found["boat"].planned, found["boat"].kept, found["boat"].yields.n) == (3, 0, 0)


@pytest.mark.paper("LANCE-F8-by-class")
def test_each_classifier_is_measured_on_the_sources_of_the_class() -> None:
    made = classes(ledgered())["sled"].models
    assert made["steady"].counterfactual.estimate == 1.0
    leaning = made["leaning"]
    assert (leaning.original.estimate, leaning.counterfactual.estimate) == (1.0, 0.0)
    assert leaning.original.n == leaning.counterfactual.n == 4
    assert leaning.delta_p.estimate == pytest.approx(-0.725)
    assert leaning.delta_p.low is not None
    assert (leaning.n_images, leaning.n_sources) == (4, 4)


def test_a_source_without_reconstruction_does_not_count_in_class_accuracy() -> None:
    made = ledgered()
    made.items = [item for item in made.items if (item.item_group, item.kind) != ("sled-0", "reconstruction")]
    found = classes(made)["sled"]
    assert found.kept == 4
    assert found.models["leaning"].n_sources == 3


def test_the_example_is_the_edit_with_the_largest_drop() -> None:
    made = ledgered()
    found = classes(made)
    [hardest] = [item.id for item in made.items if item.item_group == "sled-2" and item.kind == "edit"]
    assert found["sled"].example_item == hardest
    assert found["boat"].example_item == ""
    assert found["boat"].models["leaning"].counterfactual.estimate is None
