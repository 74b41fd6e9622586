"""The fakes satisfy the contract of the engines they replace; real ones are tested on tiny models."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from fakes.engine_contract import Bench, Case, Clause, each_clause_and_case
from fakes.engines import FakeCaptioner, FakeClassifiers, FakeEditor, FakePerturber, FakeScorer


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    store = BlobStore(str(tmp_path_factory.mktemp("store")))
    return Bench(
        captioner=FakeCaptioner(store),
        perturber=FakePerturber(store),
        editor=FakeEditor(store),
        scorer=FakeScorer(store),
        classifiers=FakeClassifiers(store),
        store=store,
        classifier="sure",
    )


@each_clause_and_case
def test_a_fake_engine_satisfies_the_contract(clause: Clause, case: Case, bench: Bench) -> None:
    clause(bench, case)


def test_a_fake_without_a_store_treats_every_image_as_present(tmp_path: Path) -> None:
    assert FakeEditor()._draw("a boat") == FakeEditor(BlobStore(str(tmp_path)))._draw("a boat")
