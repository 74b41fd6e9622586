"""A perturber on vLLM keeps the contract of all engines, chooses its adapter by request, and comes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.perturber import (
    LikelihoodsRequest,
    PerturbItem,
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.errors import BackendUnavailable
from counterpose_core.suite import PerturberSuite
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.language_model import Row
from counterpose_services.perturber.transformers_model import TransformersModel
from fakes.engine_contract import TEXTS, Bench, Case, Clause, each_clause_and_case_of
from fakes.engines import FakeCaptioner, FakeClassifiers, FakeEditor, FakeScorer
from fakes.tiny_models.llama import save_llama
from vllm_server.conftest import Start, server_of

SUITE = PerturberSuite(
    model="perturber", adapter="perturber/adapter", max_new_tokens=8, prompt="compact", temperature=1.0
)
GREEDY = SUITE.model_copy(update={"top_k": 1})
# vLLM's attention on a CPU takes heads of 32 numbers, but not of 16.
WIDTH = 64


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_llama(folder / "perturber", width=WIDTH)
    return folder


@pytest.fixture(scope="module")
def engine(start: Start, root: Path) -> PerturberEngine:
    return start(SUITE, root)


@pytest.fixture(scope="module")
def bench(engine: PerturberEngine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    store = BlobStore(str(tmp_path_factory.mktemp("store")))
    return Bench(
        captioner=FakeCaptioner(store), perturber=engine, editor=FakeEditor(store), scorer=FakeScorer(store),
        classifiers=FakeClassifiers(store), store=store, classifier="sure",
    )  # fmt: skip


@each_clause_and_case_of("perturber")
def test_a_perturber_on_vllm_keeps_the_contract(clause: Clause, case: Case, bench: Bench) -> None:
    clause(bench, case)


def asked(*captions: str, n: int = 2) -> PerturbRequest:
    return PerturbRequest(
        items=[
            PerturbItem(caption=caption, perturbation_type="adjective", n=n, seed=row)
            for row, caption in enumerate(captions)
        ]
    )


def greedy(engine: PerturberEngine, model: str, prompt: list[int]) -> list[int] | None:
    body = {"model": model, "prompt": prompt, "max_tokens": 8, "top_k": 1, "return_token_ids": True}
    return server_of(engine).completion(body).only.token_ids


def test_each_request_chooses_its_adapter(engine: PerturberEngine, root: Path) -> None:
    """Requests for the base and for its adapter, in one batch, get what each alone gets from transformers."""
    models = {
        name: TransformersModel.load(suite, root, device="cpu", dtype="float32")
        for name, suite in {
            "perturber/adapter": GREEDY,
            "perturber": GREEDY.model_copy(update={"adapter": None}),
        }.items()
    }
    prompts = [models["perturber"].prompt(f"adjective : {text} =>", text) for text in TEXTS]
    asked_for = [(name, prompt) for prompt in prompts for name in models]
    found = server_of(engine).together(lambda one: greedy(engine, *one), asked_for)
    with torch.inference_mode():
        wanted = [models[name]._sampled([Row(prompt, 0, 0)])[0] for name, prompt in asked_for]
    assert found == wanted
    assert any(wanted[row] != wanted[row + 1] for row in range(0, len(wanted), 2))


def served(engine: PerturberEngine, request: PerturbRequest) -> PerturbResponse:
    """Repeat a call as the gateway does."""
    while True:
        try:
            return engine.perturb(request)
        except BackendUnavailable:
            time.sleep(0.5)


@pytest.mark.fault("F2")
def test_a_server_killed_in_the_middle_of_a_batch_comes_back_and_nothing_is_lost(
    engine: PerturberEngine,
) -> None:
    calls = [
        asked(*TEXTS, *(f"the red boat and {word}" for word in ("a sled", "dogs", "snow"))) for _ in "abcd"
    ]
    before = [served(engine, call).outcomes for call in calls]
    guard = server_of(engine).supervised
    assert guard is not None
    started = guard.pid
    begun = threading.Event()

    def repeated(call: PerturbRequest) -> PerturbResponse:
        begun.set()
        return served(engine, call)

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(repeated, call) for call in calls for _ in range(4)]
        begun.wait()
        # vLLM itself, which its guard started.
        (program,) = Path(f"/proc/{started}/task/{started}/children").read_text(encoding="ascii").split()
        os.kill(int(program), signal.SIGKILL)
        after = [future.result().outcomes for future in futures]
    assert guard.pid != started
    assert all(outcome.value is not None for outcomes in after for outcome in outcomes)
    assert after == [outcomes for outcomes in before for _ in range(4)]


def test_likelihoods_beside_other_requests_are_those_of_transformers(
    engine: PerturberEngine, root: Path
) -> None:
    """vLLM's issue 51594: beside others, likelihoods under a server with adapters ended the server."""
    here = PerturberEngine.load(SUITE, root)
    texts = [f"{text} and {other}" for text in TEXTS for other in TEXTS]
    with ThreadPoolExecutor(2) as pool:
        beside = pool.submit(lambda: [engine.perturb(asked(*TEXTS, n=4)) for _ in range(8)])
        found = engine.likelihoods(LikelihoodsRequest(texts=texts)).outcomes
        beside.result()
    wanted = here.likelihoods(LikelihoodsRequest(texts=texts)).outcomes
    for one, two in zip(wanted, found, strict=True):
        assert two.unwrap().tokens == one.unwrap().tokens
        assert two.unwrap().nats == pytest.approx(one.unwrap().nats, rel=1e-4)
