"""``counterpose-services check``: the miniature suite fits and answers; missing weights are named."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counterpose_services.serving import check as checking
from counterpose_services.serving import engine_trial, launcher
from counterpose_services.serving.check import run_trial
from counterpose_services.serving.engine_trial import Trial, try_service
from counterpose_services.settings import SERVICES, ServiceName, ServiceSettings

MIB = 2**20


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path / "state"))


def check(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> dict[str, Any]:
    assert launcher.main(["check", "--json", *arguments]) == code
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_the_miniature_suite_is_found_and_fits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = check(capsys, code=0)
    assert found["ok"]
    assert [one["service"] for one in found["services"]] == list(SERVICES)
    assert all(model["folder"] for one in found["services"] for model in one["models"])
    (device,) = found["devices"]
    assert 0 < device["needed_bytes"] < device["memory_bytes"]
    assert not (tmp_path / "state").exists()


def test_a_suite_without_weights_fails_with_a_sentence_for_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_SUITE_ROOT", str(tmp_path / "absent"))
    monkeypatch.setattr(checking, "device_bytes", lambda device: [2**50])
    found = check(capsys, "--suite", "lance", "--load", code=1)
    problems = [problem for one in found["services"] for problem in one["problems"]]
    assert len(problems) == 8, problems
    assert any("ALLOWED_LICENCES=huggyllama/llama-7b" in problem for problem in problems)
    assert all(one["trial"] is None for one in found["services"] if one["problems"])
    blip = problems[0]
    assert "the captioner needs 'Salesforce/blip2-opt-2.7b'" in blip
    assert "hf download Salesforce/blip2-opt-2.7b" in blip
    assert blip.endswith("(licence mit): 15 GB")
    (model,) = found["services"][0]["models"]
    assert (model["repository"], model["licence"]) == ("Salesforce/blip2-opt-2.7b", "mit")
    assert model["download_bytes"] == 14_979_047_424
    assert "\n" not in "".join(problems)


def test_the_table_names_every_problem_and_what_is_not_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_SUITE_ROOT", str(tmp_path / "absent"))
    monkeypatch.setattr(checking, "device_bytes", lambda device: [10 * 2**30])
    assert launcher.main(["check", "--suite", "lance", "--only", "perturber"]) == 1
    printed = capsys.readouterr().out
    assert "perturber  cpu     float32  0 of 2" in printed
    assert "does not fit, not counting lance/lora" in printed
    assert "- the perturber needs about 43.1 GiB on 'cpu', of which the largest has 10.0" in printed
    assert "- perturber: about 43.1 GiB of all replicas on 'cpu', which has 10.0" in printed
    assert printed.splitlines()[0].endswith(": 5 problems")


def test_replicas_spread_over_all_gpus_but_each_must_fit_on_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = [2**30, 2**30]
    monkeypatch.setattr(checking, "device_bytes", lambda device: gpus)
    monkeypatch.setenv("COUNTERPOSE_CAPTIONER_MAX_REPLICAS", "3")
    assert check(capsys, "--only", "captioner", code=0)["devices"][0]["memory_bytes"] == 2 * 2**30
    gpus[1] = 2**28
    (short,) = check(capsys, "--only", "captioner", code=1)["devices"][0]["problems"]
    assert "captioner: about 1.5 GiB of all replicas on 'cpu', which has 1.2" in short
    gpus[:] = [2**28] * 8
    (large,) = check(capsys, "--only", "captioner", code=1)["devices"][0]["problems"]
    assert "the captioner needs about 0.5 GiB on 'cpu', of which the largest has 0.2" in large
    assert "COUNTERPOSE_CAPTIONER_DEVICE" in large


def test_a_device_that_is_absent_is_a_problem_of_its_services(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setenv("COUNTERPOSE_EDITOR_DEVICE", "cuda")
    found = check(capsys, "--only", "editor", code=1)
    (editor,) = found["services"]
    assert (editor["device"], editor["dtype"]) == ("cuda", "float16")
    assert "set COUNTERPOSE_EDITOR_DEVICE to cpu" in editor["problems"][0]
    assert found["devices"] == []


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_answers_one_request(service: ServiceName) -> None:
    found = try_service(service, ServiceSettings.model_validate({}))
    assert found.problem is None
    assert found.request_seconds > 0.0
    assert found.peak_bytes > 100 * MIB


def test_a_trial_runs_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = check(capsys, "--only", "captioner", "--load", code=0)
    (captioner,) = found["services"]
    assert captioner["trial"]["load_seconds"] > 0.0
    assert captioner["trial"]["problem"] is None


def test_a_service_that_does_not_answer_is_a_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("CUDA error: out of memory\nat some line")

    monkeypatch.setitem(engine_trial.REQUESTS, "captioner", failing)
    failed = try_service("captioner", ServiceSettings.model_validate({}))
    assert failed.problem == "the captioner did not answer: RuntimeError: CUDA error: out of memory"
    monkeypatch.setattr(checking, "run_trial", lambda *_: failed)
    found = check(capsys, "--only", "captioner", "--load", code=1)
    assert found["services"][0]["problems"] == [failed.problem]


def test_a_trial_that_is_killed_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.CompletedProcess([], returncode=-9, stdout="", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    found = run_trial("editor", ServiceSettings.model_validate({}))
    assert found == Trial(problem="the editor did not answer: its process ended (exit status -9)")
