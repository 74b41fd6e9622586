"""The bank of outcomes: keys pinned by value, since the names of hashed fields are data, and older lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.records.items import PlannedItem
from evaluation.two_stages.bank import Bank, outcome_key

REQUEST = {"dataset": "demo", "classifiers": ["steady"], "preset": "quick", "seed": 3}
CONFIG = {
    "request": REQUEST, "suite": "fake", "preset": {"steps": 4, "self_replace": [0.2, 0.9]}, "gate": {},
    "text": {}, "models": {"editor": "editor"}, "versions": {}, "dataset_digest": "d" * 64,
    "classes": ["sled"],
}  # fmt: skip
EDIT = PlannedItem(
    item_key="key", ordinal=0, kind="edit", item_group="sled-0", source_image="0" * 64, label="sled",
    edit_type="background", slot=0,
)  # fmt: skip


def test_an_edit_has_the_key_on_record() -> None:
    assert (
        outcome_key(EDIT, None, StressTestConfig.model_validate(CONFIG))
        == "27c86335323d131a724f32a24e0744298dc4994a5cc498b441cebf06852286ee"
    )


def test_an_edit_of_another_sweep_has_the_key_on_record() -> None:
    swept = StressTestConfig.model_validate(CONFIG | {"request": REQUEST | {"strength": [0.2, 0.9]}})
    assert (
        outcome_key(EDIT, None, swept) == "944a2b70865239faf514c8b221e90e9480f3372a77ea090f6f4cb46f3fb7da66"
    )


def test_an_outcome_is_read_that_was_banked_under_former_names(tmp_path: Path) -> None:
    scores = dict.fromkeys(("direction", "image_image", "text_original", "text_edited"), 0.5)
    scores["text_edited_source"] = 0.2
    result: dict[str, Any] = {
        "image": "1" * 64, "caption": "a sled", "self_replace": 0.9, "self_replace_tried": [0.2, 0.9],
        "sweep": [{"self_replace": value, **scores} for value in (0.2, 0.9)], "preset": CONFIG["preset"],
    }  # fmt: skip
    path = tmp_path / "bank.jsonl"
    path.write_text(json.dumps({"key": "first", "outcome": {"state": "done", "result": result}}))
    found = Bank(path)["first"].result
    assert found is not None
    assert (found.strength, found.strengths_tried) == (0.9, [0.2, 0.9])
    assert [each.strength for each in found.sweep] == [0.2, 0.9]
    assert found.preset is not None
    assert found.preset.sweep == (0.2, 0.9)
