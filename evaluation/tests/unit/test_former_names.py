"""Items on record are read under the names that their fields had."""

from __future__ import annotations

from typing import Any

from evaluation.former_names import renamed
from evaluation.validity.running import FINISHED


def test_a_finished_run_is_read_that_was_kept_under_former_names() -> None:
    scores = dict.fromkeys(("direction", "image_image", "text_original", "text_edited"), 0.5)
    scores["text_edited_source"] = 0.2
    result: dict[str, Any] = {
        "image": "1" * 64, "caption": "a sled", "self_replace": 0.9, "self_replace_tried": [0.2, 0.9],
        "sweep": [{"self_replace": value, **scores} for value in (0.2, 0.9)],
        "preset": {"self_replace": [0.2, 0.9]},
    }  # fmt: skip
    item: dict[str, Any] = {
        "id": "run.0", "ordinal": 0, "kind": "edit", "item_group": "sled-0", "source_image": "0" * 64,
        "label": "sled", "edit_type": "object", "slot": 0, "state": "done", "attempts": 1, "result": result,
    }  # fmt: skip
    [found] = FINISHED.validate_python({"run_id": "run", "items": [item]}).items
    assert found.result is not None
    assert (found.result.strength, found.result.strengths_tried) == (0.9, [0.2, 0.9])
    assert [each.strength for each in found.result.sweep] == [0.2, 0.9]
    assert found.result.preset is not None
    assert found.result.preset.sweep == (0.2, 0.9)


def test_items_are_read_under_their_own_names_and_as_they_are() -> None:
    assert renamed({"strength": 0.9, "caption": "a sled"}) == {"strength": 0.9, "caption": "a sled"}
    assert renamed(None) is None
