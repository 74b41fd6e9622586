"""A small stress test on the oracle server from end to end, and what is done is kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from counterpose_core.contract.preservation import FAULTS
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_processes.ports import free_port
from evaluation.served_editor import __main__ as command
from evaluation.served_editor import running, with_region
from evaluation.served_editor.plan import PLANS, WITH_REGION, Plan
from evaluation.validity.report import Validity


def test_sources_are_those_that_the_preset_was_validated_on() -> None:
    quick = Validity.model_validate_json(command.VALIDITY.read_bytes()).presets[command.PRESET]
    counts = Counter(scene.object_class for scene in command.scenes(quick.setting.sources))
    # In the order of their first image, which depends on the distribution.
    assert list(counts.items()) == list(quick.setting.sources_by_class.items())
    assert quick.setting.seeds == [command.STRETCH]
    assert quick.setting.edits_per_source == command.EDITS_OF_A_SOURCE


def test_a_run_on_each_server_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {"shift": 0.3, "leak": 0.3, "refuses": 0.1}
    monkeypatch.setattr(command, "PLANS", {"faulty": Plan("faulty", shares), "honest": PLANS["honest"]})
    monkeypatch.setattr(command, "EDITS_OF_A_SOURCE", 5)
    monkeypatch.setattr(running, "PORT", free_port())
    out = tmp_path / "out.json"
    given = ["--sources", "8", "--state", str(tmp_path), "--out", str(out)]
    command.main(given)
    made = json.loads(out.read_bytes())
    faulty, honest = made["faulty"], made["honest"]
    assert set(faulty["outcomes"]["answers by group"]) == {"obeys", "shift", "leak", "refuses"}
    assert set(honest["outcomes"]["answers by group"]) == {"obeys"}
    assert faulty["gate"]["edits answered"] > 15
    assert faulty["planted in edits"]["shift"]["dropped by any filter of images"]["estimate"] > 0.8
    assert faulty["outcomes"]["items"]["edit: gate-preservation"] > 0
    assert "edit: gate-preservation" not in honest["outcomes"]["items"]
    policy = faulty["outcomes"]["items filtered as refused by policy"]
    assert 0 < policy <= faulty["outcomes"]["questions refused by policy"] * 2
    assert faulty["by the exact region"]["leak"]["found"]["estimate"] > 0.8
    assert faulty["bugs"]["quick"]["planted bugs found"]["n"] == 8

    def gone(*_: object) -> None:
        raise AssertionError("a finished run is not made again")

    monkeypatch.setattr(running, "images_server", gone)
    command.main(given)
    assert json.loads(out.read_bytes()) == made


def test_each_region_has_a_run_with_every_fault_refused_and_a_seed_of_its_own() -> None:
    arms = with_region.region_arms()
    assert set(arms) == {"object", "background"}
    for arm in arms.values():
        create = StressTestCreate(dataset="scenes", classifiers=["a"], seed=3, **arm.fields)
        assert (create.refused_faults, arm.is_masked) == (list(FAULTS), True)
        assert arm.plan.shares == PLANS["faulty"].shares
    seeds = [PLANS["faulty"].seed, *(arm.plan.seed for arm in arms.values())]
    assert seeds == [40_117, 40_118, 40_119]
    assert len({arm.port for arm in arms.values()}) == 2


def test_a_run_with_a_region_finds_leaks_and_its_figures_stand_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(with_region, "PLANS", {"faulty": Plan("faulty", {"leak": 0.4})})
    monkeypatch.setattr(with_region, "EDITS_OF_A_SOURCE", 5)
    monkeypatch.setattr(running, "PORT", free_port())
    out = tmp_path / "out.json"
    out.write_text('{"faulty": "of the runs without a region"}')
    with_region.main(["--sources", "8", "--state", str(tmp_path), "--out", str(out)])
    made = json.loads(out.read_bytes())
    assert made["faulty"] == "of the runs without a region"
    runs = made[WITH_REGION]["runs"]
    assert set(runs["object"]["gate"]["false refusals by what was asked"]) <= {"colour", "kind"}
    assert {"companion", "background"} <= set(runs["background"]["left out"]["by what was asked"])
    found = [each["planted in edits"]["leak"]["refused for preservation"] for each in runs.values()]
    assert sum(one["n"] for one in found) > 5
    assert sum(one["n"] * (one["estimate"] or 0) for one in found) / sum(one["n"] for one in found) > 0.8
    assert all(each["by the limits alone"]["leak"]["found"]["n"] >= 3 for each in runs.values())
    assert len(made[WITH_REGION]["aims"]) == 12
