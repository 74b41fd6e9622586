"""A tiny suite of classifiers and its engine, shared by all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from fakes.tiny_classifiers import SUITE, save_suite


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    save_suite(folder)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "store"))


@pytest.fixture
def engine(root: Path, store: BlobStore) -> ClassifiersEngine:
    return ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
