"""The segmenter's deployment: beside a scorer in one application, or alone in a suite without one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve import Application

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.scorer import Segment, SegmentRequest, SegmentResponse
from counterpose_services.scorer.deployment import ScorerDeployment, SegmenterDeployment, build
from fakes.engines import FakeScorer
from integration.services.test_deployments import IMAGE, application, client, scorer, settings


@pytest.mark.parametrize(("base", "behind"), [("miniature", ["segmenter", "encoder"]), ("photographs", [])])
def test_a_suite_s_segmenter_has_replicas_of_its_own_beside_a_scorer_and_else_answers_alone(
    tmp_path: Path, base: str, behind: list[str]
) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(f'base = "{base}"\n[segmenter]\nmodel = "net"\n')
    bound = build(settings(suite=str(suite)))._bound_deployment
    further = [one._bound_deployment.name for one in bound.init_args if isinstance(one, Application)]
    assert (bound.name, further) == ("scorer", behind)
    made = SegmenterDeployment(settings(suite=str(suite)), engine=FakeScorer())
    assert made.full_batch == 8.0
    assert set(made.posts()) == {"/v1/segment"}


async def test_a_scorer_passes_on_what_its_segmenter_is_asked() -> None:
    async def remote(body: SegmentRequest) -> SegmentResponse:
        segments = [Outcome[Segment](value=Segment(mask=None, share=0.0, why="asked")) for _ in body.items]
        return SegmentResponse(outcomes=segments, model=ModelIdentity(id="net", revision="1"))

    handle: Any = SimpleNamespace(answer=SimpleNamespace(remote=remote))
    app = application(ScorerDeployment(settings(), engine=FakeScorer(), segmenter=handle))
    body = {"items": [{"image": IMAGE, "label": "cat"}]}
    async with client(app) as http:
        answer = await http.post("/v1/segment", json=body)
        assert answer.json()["outcomes"][0]["value"]["why"] == "asked"
    async with client(scorer(FakeScorer())) as http:
        assert (await http.post("/v1/segment", json=body)).status_code == 404
