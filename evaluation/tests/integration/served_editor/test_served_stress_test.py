"""A small stress test on the oracle server from end to end, and what is done is kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from counterpose_processes.ports import free_port
from evaluation.served_editor import __main__ as command
from evaluation.served_editor import running
from evaluation.served_editor.plan import PLANS, Plan
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
