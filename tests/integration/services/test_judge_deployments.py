"""The judges' deployments: beside a scorer in one application, each with replicas of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from ray.serve import Application

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.judges import Judgement, JudgeRequest, JudgeResponse
from counterpose_core.contract.spending import SPENT_HEADER, Spent
from counterpose_core.errors import BackendUnavailable, InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_services.openai_api.metering import note
from counterpose_services.scorer.deployment import EncoderDeployment, JudgeDeployment, ScorerDeployment, build
from fakes.engines import FakeScorer
from integration.services.test_deployments import IMAGE, application, client, settings

JUDGES = """
[judge]
server = "https://judges.test/v1"
model = "vlm"

[encoder]
model = "net"
batch = 4

[calibrations.judge]
against = "ratings of two people"
right_kept = 80
wrong_kept = 20
wrong_dropped = 80
right_dropped = 20
"""
ITEM = {"original": IMAGE, "edited": IMAGE, "label": "cat", "caption": "a", "edited_caption": "b"}


def test_each_judge_has_replicas_of_its_own_and_one_that_asks_a_server_no_gpu(tmp_path: Path) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(f'base = "miniature"\n{JUDGES}')
    gpu = settings(suite=str(suite), scorer={"num_gpus": 0.5, "device": "cuda"}, openai_in_flight=3)
    bound = build(gpu)._bound_deployment
    beside = {one._bound_deployment.name: one for one in bound.init_args if isinstance(one, Application)}
    assert (bound.name, set(beside)) == ("scorer", {"encoder", "judge"})
    options = {name: one._bound_deployment.ray_actor_options or {} for name, one in beside.items()}
    shares = {name: each["num_gpus"] for name, each in options.items()}
    assert shares == {"encoder": 0.5, "judge": 0}
    made = JudgeDeployment(gpu, engine=FakeScorer())
    assert (made.full_batch, made.calls_at_once(gpu), set(made.posts())) == (16.0, 3, {"/v1/judge"})
    encoder = EncoderDeployment(gpu, engine=FakeScorer())
    assert (encoder.full_batch, encoder.calls_at_once(gpu)) == (4.0, 1)


def judged_by(remote: Callable[[JudgeRequest], Awaitable[Any]], **changes: Any) -> httpx.AsyncClient:
    """A client of a scorer whose judge's replicas answer so."""
    handle: Any = SimpleNamespace(answer=SimpleNamespace(remote=remote))
    deployment = ScorerDeployment(settings(**changes), engine=FakeScorer(), judge=handle)
    return client(application(deployment))


async def test_a_scorer_passes_on_what_its_judges_are_asked_and_names_one_that_the_suite_lacks() -> None:
    async def remote(body: JudgeRequest) -> tuple[JudgeResponse, Spent]:
        judgements = [Outcome[Judgement](value=Judgement(verdict="yes")) for _ in body.items]
        return JudgeResponse(outcomes=judgements, model=ModelIdentity(id="vlm", revision="1")), Spent()

    async with judged_by(remote) as http:
        answer = await http.post("/v1/judge", json={"judge": "judge", "items": [ITEM]})
        assert answer.json()["outcomes"][0]["value"]["verdict"] == "yes"
        other = await http.post("/v1/judge", json={"judge": "encoder", "items": [ITEM]})
        assert other.status_code == 404
        assert "the suite 'miniature' has no judge 'encoder'" in other.json()["detail"]


@pytest.mark.parametrize(("fails", "spent"), [(False, (4, 31)), (True, (4, 800))])
async def test_a_scorer_tells_what_its_judge_asked_for_and_the_most_of_a_replica_that_failed(
    fails: bool, spent: tuple[int, int], tmp_path: Path
) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(f'base = "miniature"\n{JUDGES}')

    async def remote(body: JudgeRequest) -> tuple[JudgeResponse, Spent]:
        if fails:
            raise BackendUnavailable("the judge's server is away")
        judgements = [Outcome[Judgement](value=Judgement(verdict="yes")) for _ in body.items]
        model = ModelIdentity(id="vlm", revision="1")
        return JudgeResponse(outcomes=judgements, model=model), Spent(calls=4, output_tokens=31)

    async with judged_by(remote, suite=str(suite)) as http:
        answer = await http.post("/v1/judge", json={"judge": "judge", "items": [ITEM, ITEM]})
    told = Spent.model_validate_json(answer.headers[SPENT_HEADER])
    assert (told.calls, told.output_tokens) == spent


async def test_a_replica_tells_what_its_engine_asked_for() -> None:
    class Asking(FakeScorer):
        def judge(self, request: JudgeRequest) -> JudgeResponse:
            note(Spent(calls=3, output_tokens=40))
            return super().judge(request)

    made = JudgeDeployment(settings(), engine=Asking())
    _, spent = await made.answer(JudgeRequest.model_validate({"judge": "judge", "items": [ITEM]}))
    assert spent == Spent(calls=3, output_tokens=40)


async def test_a_replica_answers_by_its_engine_and_counts_the_call() -> None:
    made = JudgeDeployment(settings(), engine=FakeScorer())
    body = JudgeRequest.model_validate({"judge": "judge", "items": [ITEM, ITEM]})
    answered, spent = await made.answer(body)
    assert [each.unwrap().verdict for each in answered.outcomes] == ["yes", "yes"]
    assert spent == Spent()
    assert made.record_autoscaling_stats()["load"] == 0.0


@pytest.mark.parametrize(
    "part", ['[judge]\nserver = "https://j.test/v1"\nmodel = "vlm"', '[encoder]\nmodel = "n"']
)
def test_judges_stand_beside_a_scorer(tmp_path: Path, part: str) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(f'base = "photographs"\n{part}\n')
    with pytest.raises(InvalidRequest, match=r"belongs to the scorer's application; add \[scorer\]"):
        load_suite(str(suite))


def test_a_suite_says_how_far_its_judges_can_be_believed(tmp_path: Path) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(f'base = "miniature"\n{JUDGES}')
    known = load_suite(str(suite)).calibrations
    assert known["judge"].wrong_kept == 20
    suite.write_text('base = "miniature"\n[calibrations.nobody]\nagainst = "x"\n')
    with pytest.raises(InvalidRequest, match="calibrations"):
        load_suite(str(suite))
