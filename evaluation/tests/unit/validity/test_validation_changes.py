"""Changes that edits requested, read from their words, and the cells that they belong to."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.types import EditType
from evaluation.tests.fakes.validity import change, item, scene, truth
from evaluation.validity.changes import change_of, changes_of, rows_of

BEFORE = scene()


@pytest.mark.parametrize(
    ("edit_type", "attribute", "value"),
    [
        ("subject", "kind", "special"),
        ("object", "companion", "dog"),
        ("background", "weather", "rain"),
        ("adjective", "colour", "blue"),
        ("domain", "style", "sketch"),
    ],
)
def test_each_edit_type_is_read_from_its_captions(edit_type: EditType, attribute: str, value: str) -> None:
    found = change_of(item(BEFORE, BEFORE.changed(attribute, value), edit_type=edit_type), source=4)
    assert found is not None
    assert (found.attribute, found.removed, found.added) == (attribute, getattr(BEFORE, attribute), value)
    assert (found.source, found.object_class, found.kept) == (4, "boat", True)


def test_an_edit_that_changes_the_class_is_not_a_change() -> None:
    assert change_of(item(BEFORE, BEFORE.changed("object_class", "tram"), edit_type="subject"), 0) is None


def test_an_edit_of_two_attributes_is_not_a_change() -> None:
    after = BEFORE.changed("background", "grass").changed("weather", "rain")
    assert change_of(item(BEFORE, after), 0) is None


def test_an_edit_outside_its_type_is_not_a_change() -> None:
    assert change_of(item(BEFORE, BEFORE.changed("colour", "blue"), edit_type="domain"), 0) is None


def test_controls_request_no_change() -> None:
    control = item(BEFORE, None, kind="reconstruction", edit_type=None)
    assert changes_of([control], {"b" * 64: 0}) == []


def test_a_filtered_edit_is_a_change_that_was_not_kept() -> None:
    found = changes_of([item(BEFORE, BEFORE.changed("background", "sand"), state="filtered")], {"b" * 64: 0})
    assert [one.kept for one in found] == [False]


def test_an_edit_counts_in_the_cells_of_its_old_and_new_value() -> None:
    scenes = [scene(nuisance=number) for number in range(3)]
    edits = [change(0), change(1, added="sand"), change(2)]
    rows = rows_of(edits, {"model": truth(scenes, {("background", "grass"): 0.3})}, least=2)
    assert {(row.cell.side, row.cell.value, len(row.true)) for row in rows} == {
        ("removed", "water", 3),
        ("added", "grass", 2),
    }


def test_cells_with_the_same_edits_are_merged() -> None:
    edits = [change(at, attribute="kind", removed="plain", added="special") for at in range(2)]
    scenes = [scene(nuisance=number) for number in range(2)]
    assert len(rows_of(edits, {"model": truth(scenes, {})}, least=2)) == 1


def test_each_source_has_equal_weight_in_its_cell() -> None:
    scenes = [scene(nuisance=number) for number in range(2)]
    edits = [
        change(0, drops={"model": 0.0}),
        change(0, added="sand", drops={"model": 0.4}),
        change(1, drops={"model": 0.6}),
    ]
    rows = rows_of(edits, {"model": truth(scenes, {("background", "grass"): 0.3})}, least=2)
    row = next(row for row in rows if row.cell.side == "removed")
    assert row.estimated.tolist() == pytest.approx([0.2, 0.6])
    assert row.true.tolist() == pytest.approx([0.3, 0.6])


def test_edits_that_were_not_kept_belong_to_no_cell() -> None:
    assert rows_of([change(0, kept=False)], {"model": truth([scene()], {})}, least=1) == []


def test_each_classifier_has_its_own_cells() -> None:
    both = {"one": 0.1, "two": 0.5}
    found = rows_of([change(0, drops=both)], {name: truth([scene()], {}) for name in both}, least=1)
    assert {row.cell.classifier: row.estimated[0] for row in found} == pytest.approx(both)


def test_withheld_combinations_are_recognised_before_and_after_the_edit() -> None:
    scenes = [scene("sled", background="sand"), scene("sled", background="grass")]
    leaving = change(0, object_class="sled", removed="sand", added="grass")
    entering = change(1, object_class="sled", removed="grass", added="sand")
    within = change(1, object_class="sled", removed="grass", added="road")
    assert [one.is_withheld(scenes) for one in (leaving, entering, within)] == [True, True, False]


def test_the_drop_is_also_measured_from_the_reconstruction() -> None:
    edited = item(BEFORE, BEFORE.changed("background", "sand"), p=({"model": 0.9}, {"model": 0.2}))
    rebuilt = item(BEFORE, None, kind="reconstruction", edit_type=None, p=({"model": 0.9}, {"model": 0.7}))
    (found,) = changes_of([edited, rebuilt], {"b" * 64: 0})
    assert found.estimated("model") == pytest.approx(0.7)
    assert found.beyond("model") == pytest.approx(0.5)
    row = rows_of([found], {"model": truth([BEFORE], {})}, least=1)[0]
    assert row.beyond.tolist() == pytest.approx([0.5])
    (alone,) = changes_of([edited], {"b" * 64: 0})
    assert np.isnan(alone.beyond("model"))
