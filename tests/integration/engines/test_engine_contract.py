"""The real engines, loaded from tiny models, satisfy the same contract as their fakes."""

from __future__ import annotations

import pytest

from fakes.engine_contract import Bench, Case, Clause, each_clause_and_case
from fakes.tiny_models.suite import write_tiny_suite
from faultline_core.blobs import BlobStore
from faultline_services.captioner.deployment import CaptionerDeployment
from faultline_services.classifiers.deployment import ClassifiersDeployment
from faultline_services.editor.deployment import EditorDeployment
from faultline_services.perturber.deployment import PerturberDeployment
from faultline_services.scorer.deployment import ScorerDeployment
from faultline_services.settings import ServiceSettings


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("tiny")
    settings = ServiceSettings.model_validate(
        {
            "suite": str(write_tiny_suite(folder / "suite")),
            "suite_root": folder / "suite",
            "state_dir": folder / "state",
        }
    )
    return Bench(
        captioner=CaptionerDeployment.load(settings),
        perturber=PerturberDeployment.load(settings),
        editor=EditorDeployment.load(settings),
        scorer=ScorerDeployment.load(settings),
        classifiers=ClassifiersDeployment.load(settings),
        store=BlobStore(settings.store_url),
        classifier="resnet",
    )


@each_clause_and_case
def test_a_real_engine_keeps_the_contract(clause: Clause, case: Case, bench: Bench) -> None:
    clause(bench, case)
