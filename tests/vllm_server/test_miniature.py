"""The miniature suite's language model answers on vLLM as it does in transformers."""

from __future__ import annotations

import pytest

from counterpose_core.contract.perturber import LikelihoodsRequest, PerturbItem, PerturbRequest
from counterpose_core.suite import PerturberSuite, load_suite
from counterpose_core.types import PerturbationType
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.settings import embedded_suite_root
from vllm_server.conftest import Start

CAPTIONS = (
    "a photo of a red bus on the grass",
    "a painting of a white sled in the snow",
    "a photo of a bee among the flowers",
    "a photo of a blue boat on the water in the fog",
    "a sketch of a red plate on the grass",
)
TYPES: tuple[PerturbationType, ...] = ("subject", "background", "adjective", "domain", "placebo")


@pytest.fixture(scope="module")
def suite() -> PerturberSuite:
    found = load_suite("miniature").perturber
    assert found is not None
    return found


def test_greedy_answers_are_equal_and_likelihoods_within_a_ten_thousandth(
    start: Start, suite: PerturberSuite
) -> None:
    greedy = suite.model_copy(update={"top_k": 1})
    here, there = PerturberEngine.load(greedy, embedded_suite_root()), start(greedy, embedded_suite_root())
    items = [
        PerturbItem(caption=caption, perturbation_type=kind, n=1, seed=row)
        for row, caption in enumerate(CAPTIONS)
        for kind in TYPES
    ]
    wanted, found = (engine.perturb(PerturbRequest(items=items)).outcomes for engine in (here, there))
    assert [one.unwrap() for one in found] == [one.unwrap() for one in wanted]
    assert sum(len(one.unwrap().edits) for one in wanted) > len(items) / 2
    texts = LikelihoodsRequest(texts=list(CAPTIONS))
    pairs = zip(here.likelihoods(texts).outcomes, there.likelihoods(texts).outcomes, strict=True)
    for one, two in pairs:
        assert two.unwrap().tokens == one.unwrap().tokens
        assert two.unwrap().nats == pytest.approx(one.unwrap().nats, rel=1e-4)
