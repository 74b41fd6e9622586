"""The judges' deployments: beside a scorer in one application, each with replicas of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve import Application

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.judges import Judgement, JudgeRequest, JudgeResponse
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
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


async def test_a_scorer_passes_on_what_its_judges_are_asked_and_names_one_that_the_suite_lacks() -> None:
    async def remote(body: JudgeRequest) -> JudgeResponse:
        judgements = [Outcome[Judgement](value=Judgement(verdict="yes")) for _ in body.items]
        return JudgeResponse(outcomes=judgements, model=ModelIdentity(id="vlm", revision="1"))

    handle: Any = SimpleNamespace(answer=SimpleNamespace(remote=remote))
    app = application(ScorerDeployment(settings(), engine=FakeScorer(), judge=handle))
    async with client(app) as http:
        answer = await http.post("/v1/judge", json={"judge": "judge", "items": [ITEM]})
        assert answer.json()["outcomes"][0]["value"]["verdict"] == "yes"
        other = await http.post("/v1/judge", json={"judge": "encoder", "items": [ITEM]})
        assert other.status_code == 404
        assert "the suite 'miniature' has no judge 'encoder'" in other.json()["detail"]


async def test_a_replica_answers_by_its_engine_and_counts_the_call() -> None:
    made = JudgeDeployment(settings(), engine=FakeScorer())
    body = JudgeRequest.model_validate({"judge": "judge", "items": [ITEM, ITEM]})
    assert [each.unwrap().verdict for each in (await made.answer(body)).outcomes] == ["yes", "yes"]
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
