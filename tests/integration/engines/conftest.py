"""Folders of tiny models and a store, made once per module; the editor's tests share the tiny pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_services.editor.pipeline import Pipeline, load_pipeline
from fakes.tiny_pipeline import SUITE, write_tiny_pipeline


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for the module's models."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    """A folder of models with the tiny pipeline."""
    write_tiny_pipeline(models / "tiny")
    return models


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    """A store that the module's tests share."""
    return BlobStore(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def pipeline(root: Path) -> Pipeline:
    """The tiny pipeline in float32."""
    return load_pipeline(SUITE, root, device="cpu", dtype="float32")
