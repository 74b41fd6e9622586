"""Where an ONNX network runs: on the GPU if the runtime can, else on the CPU, and it says so."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_services.classifiers import onnx_network
from fakes.tiny_models.onnx import save_onnx

CLASSES = ("boat", "tram", "sled", "night", "sea")


def test_a_gpu_is_used_if_the_runtime_supports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda, cpu])
    assert onnx_network.providers("cuda:1") == [(cuda, {"device_id": 1}), cpu]
    assert onnx_network.providers("cpu") == [cpu]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cpu])
    assert onnx_network.providers("cuda") == [cpu]


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_a_network_that_a_gpu_cannot_run_says_so(
    device: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, store = tmp_path / "mine", BlobStore(str(tmp_path / "store"))
    save_onnx(mine, CLASSES)
    # As where the runtime's libraries for the GPU are missing: it lists the provider and does without.
    monkeypatch.setattr(onnx_network, "providers", lambda device: ["CPUExecutionProvider"])
    onnx_network.OnnxClassifier(mine, "mine", label_map={}, store=store, batch=2, device=device)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (device == "cuda:0")
    assert all("'mine' runs on the CPU, not on 'cuda:0'" in each for each in said)
    assert all("onnxruntime-gpu" in each for each in said)
