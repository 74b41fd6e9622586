"""The real engines, loaded from tiny models, satisfy the same contract as their fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.suite import load_suite
from counterpose_services.captioner.deployment import CaptionerDeployment
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.perturber.deployment import PerturberDeployment
from counterpose_services.scorer.deployment import ScorerDeployment
from counterpose_services.settings import ServiceSettings
from fakes.engine_contract import Bench, Case, Clause, each_clause_and_case, each_clause_and_case_of
from fakes.openai_server import captioner_over, see, tiny_engine
from fakes.tiny_models.suite import write_tiny_suite


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ServiceSettings:
    folder = tmp_path_factory.mktemp("tiny")
    return ServiceSettings.model_validate(
        {
            "suite": str(write_tiny_suite(folder / "suite")),
            "suite_root": folder / "suite",
            "state_dir": folder / "state",
        }
    )


@pytest.fixture(scope="module")
def bench(settings: ServiceSettings) -> Bench:
    return Bench(
        captioner=CaptionerDeployment.load(settings),
        perturber=PerturberDeployment.load(settings),
        editor=EditorDeployment.load(settings),
        scorer=ScorerDeployment.load(settings),
        classifiers=ClassifiersDeployment.load(settings),
        store=BlobStore(settings.store_url),
        classifier="resnet",
    )


@pytest.fixture(scope="module")
def served(bench: Bench, settings: ServiceSettings) -> Bench:
    """The same bench, but the models of captioner and perturber are behind the OpenAI API."""
    suite = load_suite(settings.suite).perturber
    assert suite is not None
    captioner = captioner_over(see, bench.store)
    return replace(bench, perturber=tiny_engine(suite, settings.suite_root), captioner=captioner)


@each_clause_and_case_of("captioner", "perturber")
def test_an_engine_behind_the_openai_api_keeps_the_contract(
    clause: Clause, case: Case, served: Bench
) -> None:
    clause(served, case)


@each_clause_and_case
def test_a_real_engine_keeps_the_contract(clause: Clause, case: Case, bench: Bench) -> None:
    clause(bench, case)
