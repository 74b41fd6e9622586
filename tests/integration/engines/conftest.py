"""The tiny pipeline of the editor's tests, written and loaded once per module."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.tiny_pipeline import SUITE, write_tiny_pipeline
from faultline_services.editor.pipeline import Pipeline, load_pipeline


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models with the tiny pipeline."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def pipeline(root: Path) -> Pipeline:
    """The tiny pipeline in float32."""
    return load_pipeline(SUITE, root, device="cpu", dtype="float32")
