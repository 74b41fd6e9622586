"""The bank of outcomes: its keys, pinned by value, since the names of hashed fields are data."""

from __future__ import annotations

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.runs.items import PlannedItem
from evaluation.two_stages.bank import outcome_key

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
    swept = StressTestConfig.model_validate(CONFIG | {"request": REQUEST | {"self_replace": [0.2, 0.9]}})
    assert (
        outcome_key(EDIT, None, swept) == "944a2b70865239faf514c8b221e90e9480f3372a77ea090f6f4cb46f3fb7da66"
    )
