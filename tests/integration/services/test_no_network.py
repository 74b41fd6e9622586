"""What the page on privacy says of the services: loading a suite's models and using them asks nobody."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.suite import load_suite
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.scorer.engine import ScorerEngine

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every host that is looked up, and every address that is connected to, of this machine's own too."""
    seen: list[Any] = []

    def refuse(asked_for: Any) -> Any:
        seen.append(asked_for)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: refuse(host))
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: refuse(address))
    return seen


def test_the_models_of_the_suite_are_loaded_without_a_network(asked: list[Any], tmp_path: Path) -> None:
    suite, store = load_suite("miniature"), BlobStore(str(tmp_path))
    CaptionerEngine.load(suite.captioner, WEIGHTS, store)
    PerturberEngine.load(suite.perturber, WEIGHTS)
    EditorEngine.load(suite.editor, WEIGHTS, store)
    ScorerEngine.load(suite.scorer, WEIGHTS, store)
    registry = ClassifierRegistry(suite.classifiers, WEIGHTS, store, ClassifierOptions())
    ClassifiersEngine(registry, cache_bytes=10**9)
    registry.load("leaning-resnet")
    # Described by timm's own data; its weights alone would be asked for.
    registry.describe_one("timm:resnet50")
    assert asked == []
