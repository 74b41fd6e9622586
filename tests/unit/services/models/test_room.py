"""Weights that a device cannot hold are refused before any is loaded, with what would fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.errors import ResourceExhausted
from counterpose_services.models import preflight as module
from counterpose_services.models.preflight import require_room
from counterpose_services.serving import launcher
from counterpose_services.settings import ServiceName, ServiceSettings

GIB = 2**30
ON_GPU: list[ServiceName] = ["captioner", "perturber", "editor"]


def settings(**values: object) -> ServiceSettings:
    given = {"suite": "lance", "suite_root": "/nowhere", "device": "cuda", "dtype": "float32"}
    return ServiceSettings.model_validate(given | values)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The memory of the GPUs, which a test may change."""
    units = [80 * GIB]
    monkeypatch.setattr(module, "device_bytes", lambda device: units if device == "cuda" else [2**50])
    return units


def test_weights_that_fit_are_let_through(memory: list[int]) -> None:
    require_room(settings(), ON_GPU)
    # Two GPUs share the services.
    memory[:] = [24 * GIB, 24 * GIB]
    require_room(settings(), ON_GPU)


def test_half_precision_is_named_where_it_would_fit(memory: list[int]) -> None:
    memory[:] = [24 * GIB]
    with pytest.raises(ResourceExhausted) as refused:
        require_room(settings(), ON_GPU)
    assert refused.value.detail == (
        "the weights of captioner, perturber, editor have 43.0 GiB, and 'cuda' has 24.0; "
        "in float16 they have 21.9: set COUNTERPOSE_SERVICES_DTYPE=float16"
    )
    # A service's own precision is one more thing to change.
    with pytest.raises(ResourceExhausted, match=r"float16 they have 21\.9"):
        require_room(settings(dtype="float16", perturber={"dtype": "float32"}), ON_GPU)


def test_else_the_services_that_would_fit_are_named(memory: list[int]) -> None:
    memory[:] = [12 * GIB]
    with pytest.raises(ResourceExhausted) as refused:
        require_room(settings(dtype="float16"), ON_GPU)
    assert refused.value.detail.endswith(
        "editor, captioner would fit: put the perturber on another device with COUNTERPOSE_PERTURBER_DEVICE"
    )
    memory[:] = [GIB]
    with pytest.raises(
        ResourceExhausted, match="none of them would fit: put the captioner on another device"
    ):
        require_room(settings(dtype="float16"), ON_GPU)


def test_a_service_on_another_device_does_not_count(memory: list[int]) -> None:
    memory[:] = [12 * GIB]
    require_room(settings(dtype="float16", perturber={"device": "cpu", "dtype": "float32"}), ON_GPU)


def test_a_start_is_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "device_bytes", lambda device: [2**20])
    monkeypatch.setattr(launcher, "running", None)
    assert launcher.main(["up", "--state-dir", str(tmp_path)]) == 3
    assert "and 'cpu' has 0.0; " in capsys.readouterr().err
