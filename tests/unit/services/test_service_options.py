"""Settings of one service: its own before the common ones, and what a device lacks is refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from counterpose_core.errors import BackendUnavailable
from counterpose_services.models.device import choose_float32_precision, require_device, require_devices
from counterpose_services.serving import launcher
from counterpose_services.settings import SERVICES, ServiceName, ServiceSettings


def settings(**values: object) -> ServiceSettings:
    return ServiceSettings.model_validate(values)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with one GPU that has bfloat16; a test may change both."""
    machine = SimpleNamespace(count=1, bfloat16=True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: machine.count)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: machine.bfloat16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla T4")
    monkeypatch.setattr(torch.cuda.device, "__enter__", lambda self: None)
    monkeypatch.setattr(torch.cuda.device, "__exit__", lambda *_: None)
    return machine


def test_a_service_s_own_variables_come_before_the_common_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {
        "COUNTERPOSE_SERVICES_DEVICE": "cuda",
        "COUNTERPOSE_SERVICES_MAX_QUEUE": "9",
        "COUNTERPOSE_SCORER_DEVICE": "cpu",
        "COUNTERPOSE_EDITOR_DTYPE": "bfloat16",
        "COUNTERPOSE_EDITOR_NUM_GPUS": "0.5",
        "COUNTERPOSE_EDITOR_MIN_REPLICAS": "2",
        "COUNTERPOSE_EDITOR_MAX_REPLICAS": "3",
        "COUNTERPOSE_EDITOR_MAX_QUEUE": "4",
    }.items():
        monkeypatch.setenv(variable, value)
    found = settings()
    assert [found.of(service).device for service in SERVICES] == ["cuda", "cuda", "cuda", "cpu", "cuda"]
    editor, captioner = found.of("editor"), found.of("captioner")
    assert (editor.dtype, editor.num_gpus, editor.max_queue) == ("bfloat16", 0.5, 4)
    assert (editor.min_replicas, editor.max_replicas) == (2, 3)
    assert (captioner.dtype, captioner.num_gpus, captioner.max_queue) == ("float16", 0.2, 9)


@pytest.mark.parametrize(
    ("device", "dtype", "shares"),
    [("cpu", "float32", 0.0), ("cuda", "float16", 0.2), ("cuda:1", "float16", 0.2)],
)
def test_precision_and_gpu_share_follow_from_the_device(device: str, dtype: str, shares: float) -> None:
    found = settings(device=device)
    assert {found.of(service).num_gpus for service in SERVICES} == {shares}
    assert [found.of(service).dtype for service in SERVICES] == [dtype] * 3 + ["float32"] * 2
    assert settings(device=device, dtype="float32").of("editor").dtype == "float32"


def test_a_service_on_the_cpu_reserves_no_gpu_of_the_common_share() -> None:
    found = settings(device="cuda", num_gpus=1, scorer={"device": "cpu"})
    assert (found.of("editor").num_gpus, found.of("scorer").num_gpus) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"editor": {"min_replicas": 3}}, "of the editor is below"),
        ({"scorer": {"dtype": "float16"}}, "unset COUNTERPOSE_SCORER_DTYPE"),
        ({"classifiers": {"dtype": "bfloat16"}}, "unset COUNTERPOSE_CLASSIFIERS_DTYPE"),
        ({"scorer": {"tf32": True}}, "unset COUNTERPOSE_SCORER_TF32"),
        ({"captioner": {"compile": True}}, "unset COUNTERPOSE_CAPTIONER_COMPILE"),
        ({"device": "cuda", "num_gpus": 0}, "set COUNTERPOSE_CAPTIONER_NUM_GPUS above 0"),
        ({"editor": {"device": "gpu"}}, "editor.device"),
        ({"editor": {"gpus": 1}}, "editor.gpus"),
    ],
)
def test_contradictions_are_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        settings(**wrong)


def test_only_services_of_the_suite_say_how_long_they_start() -> None:
    given = {"suite": "photographs", "min_replicas": 0}
    with pytest.raises(ValidationError, match="of the classifiers is 0"):
        settings(**given)
    assert settings(**given, classifiers={"start_s": 20}).of("classifiers").start_s == 20
    with pytest.raises(ValidationError, match="of the captioner is 0"):
        settings(**{**given, "suite": "miniature"}, classifiers={"start_s": 20})


def test_a_device_that_is_absent_is_refused_before_anything_starts(
    gpus: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.count = 0
    monkeypatch.setenv("COUNTERPOSE_EDITOR_DEVICE", "cuda")
    assert launcher.main(["up"]) == 3
    error = capsys.readouterr().err
    assert "the editor is to run on 'cuda', and there is no GPU here" in error
    assert "set COUNTERPOSE_EDITOR_DEVICE to cpu" in error


def test_an_index_beyond_the_last_gpu_is_refused(gpus: SimpleNamespace) -> None:
    require_device(settings(device="cuda:0"), "scorer")
    with pytest.raises(
        BackendUnavailable, match=r"'cuda:1', and there is 1 GPU .*COUNTERPOSE_SCORER_DEVICE to cuda"
    ):
        require_device(settings(device="cuda:1"), "scorer")


def test_a_precision_that_the_gpu_lacks_is_refused(gpus: SimpleNamespace) -> None:
    wanted = settings(device="cuda", dtype="bfloat16")
    require_devices(wanted, SERVICES)
    gpus.bfloat16 = False
    with pytest.raises(
        BackendUnavailable, match=r"Tesla T4 has no bfloat16, .* COUNTERPOSE_EDITOR_DTYPE to float16"
    ):
        require_device(wanted, "editor")
    require_device(wanted, "scorer")


def test_shares_of_more_gpus_than_there_are_are_refused(gpus: SimpleNamespace) -> None:
    require_devices(settings(device="cuda"), SERVICES)
    with pytest.raises(
        BackendUnavailable, match="reserve 5 GPUs, and there is 1 GPU; lower COUNTERPOSE_CAPTIONER"
    ):
        require_devices(settings(device="cuda", num_gpus=1), SERVICES)
    gpus.count = 5
    require_devices(settings(device="cuda", num_gpus=1), SERVICES)


@pytest.mark.parametrize(
    ("values", "service", "allowed"),
    [
        ({"device": "cuda"}, "scorer", False),
        ({"device": "cuda"}, "classifiers", False),
        ({"device": "cuda"}, "editor", None),
        ({"device": "cuda", "editor": {"tf32": True}}, "editor", True),
        ({"device": "cuda", "editor": {"tf32": False}}, "editor", False),
        ({"scorer": {"tf32": False}}, "scorer", None),
    ],
)
def test_scorer_and_classifiers_never_round_float32_on_a_gpu(
    values: dict[str, object], service: ServiceName, allowed: bool | None
) -> None:
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    try:
        choose_float32_precision(settings(**values), service)
        found = [backend.allow_tf32 for backend in backends]
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.allow_tf32 = value
    assert found == (before if allowed is None else [allowed, allowed])
