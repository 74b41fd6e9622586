"""The keys of a stress test's items, pinned by value: the names of hashed fields are data.

Another key is another item: a run that goes on after an upgrade would make its images twice. A pin changes
only in a commit that says which keys change and why.
"""

from __future__ import annotations

from typing import Any

import pytest

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.methods.stress_test.confirm.shots import redraw_hash
from counterpose_gateway.methods.stress_test.screen.items import items_hash, plan_items
from counterpose_gateway.records.source_table import SourceTable
from fakes.world import FakeWorld

PRESET = {"steps": 4, "self_replace": [0.2, 0.9]}


def config(preset: dict[str, Any] = PRESET, **request: Any) -> StressTestConfig:
    """A configuration in which nothing depends on a suite or an installed version."""
    asked = {"dataset": "demo", "classifiers": ["steady"], "preset": "quick", "seed": 3, **request}
    return StressTestConfig.model_validate(
        {
            "request": asked, "suite": "fake", "preset": preset, "gate": {}, "text": {},
            "models": {"editor": "editor"}, "versions": {}, "dataset_digest": "d" * 64, "classes": ["sled"],
            "redraw": {"inversion": "virtual", "solver": "consistent", "steps": 4, "self_replace": [0.5]},
        }
    )  # fmt: skip


@pytest.mark.parametrize("swept", [None, [0.2, 0.9]])
def test_a_configuration_has_the_hash_on_record(swept: list[float] | None) -> None:
    # The sweep is hashed once, as the preset's.
    assert (
        items_hash(config(strength=swept))
        == "c13dc60fe00f83c0069365c7f0e9826ecd844edad60cb3116ec5d66e76b421d7"
    )


def test_another_sweep_has_another_hash() -> None:
    assert items_hash(config({"steps": 4, "self_replace": [0.2, 0.8]})) != items_hash(config())


def test_an_edit_has_the_key_on_record() -> None:
    sources = SourceTable.of(FakeWorld().sources(1, ("sled",)))
    planned = plan_items(config(edit_types=["background"]), sources, SourceTable.of([]))
    assert (
        next(item.item_key for item in planned if item.kind == "edit")
        == "59ddae6094275b7a1ad876db4ff154780f28056c768a34283f58ee5602e33c27"
    )


def test_settings_that_draw_again_have_the_hash_on_record() -> None:
    assert redraw_hash(config()) == "f17fa5a2daa790c2ac3ca5c1e76f3534f8933bcce41f6ca5e68ab9871614bad9"
