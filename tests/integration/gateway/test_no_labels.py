"""Gates, benchmarks, hunts and datasets of one classifier that refuses some images: it is not wrong there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.shift_benchmark_summary import UnansweredImages
from counterpose_core.errors import AnswerRefused
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntClassifiers, hunted_services
from fakes.ledger_audit import violated
from fakes.page_runs import BODY
from fakes.ports import FakeClassifiers, fake_services, refusing
from fakes.world import FakeWorld

REFUSED = AnswerRefused("answer-refused: the model says 'Sorry.'; reword the question")


def is_refused(ref: str) -> bool:
    """Whether a model refuses an image: every fourth."""
    return int(ref[-1], 16) < 4


class Unwilling(FakeClassifiers):
    """``steady`` is always right, where it answers."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answers, and refusals."""
        answer = await super().classify(request)
        return refusing(answer, [is_refused(ref) for ref in request.images], REFUSED)


class UnwillingHunted(HuntClassifiers):
    """As those of a hunt, where they answer."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answers, and refusals."""
        answer = await super().classify(request)
        return refusing(answer, [is_refused(ref) for ref in request.images], REFUSED)


async def summed(gateway: FakeGateway, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run, worked off."""
    made = await gateway.http.post(path, json=body)
    assert made.status_code == 202, made.text
    run = made.json()["id"]
    await gateway.worker().work_off()
    assert gateway.ledger.runs.get(run).state == "completed"
    assert violated(gateway.ledger, run) == []
    report = await gateway.http.get(f"/v1/runs/{run}/report")
    assert report.status_code == 200, report.text
    found: dict[str, Any] = (await gateway.http.get(f"/v1/runs/{run}/summary")).json()
    return found


async def test_a_gate_leaves_out_the_pairs_that_a_candidate_refuses(tmp_path: Path) -> None:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=Unwilling(world))

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        await gateway.upload("demo", 8)
        tested = await summed(gateway, "/v1/stress-tests", BODY | {"classifiers": ["steady"]})
        [told] = tested["unanswered"]
        assert told["outcomes"]["answer-refused"]["estimate"] == told["images"] / told["of"]
        gate = {"baseline": tested["run_id"], "classifiers": ["timm:resnet18"], "seed": 1}
        found = await summed(gateway, "/v1/gates", gate)
    # Both refuse the same images, and are right on all others.
    assert found["unanswered"]["timm:resnet18"] > 0
    assert {cell["regression"]["estimate"] for cell in found["cells"]} == {0.0}
    assert found["outcome"] != "failed"


async def test_a_benchmark_tells_how_often_its_classifier_refuses(tmp_path: Path) -> None:
    def ports(world: FakeWorld) -> Any:
        return benchmark_services(world, classifiers=Unwilling(world))

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        small = {"shifts": ["in the snow"], "classes": ["plate"], "image_sources": ["token"], "n": 8}
        body = benchmark_body(await uploaded(gateway, 2), classifiers=["steady"], real=2, **small)
        found = await summed(gateway, "/v1/shift-benchmarks", body)
    [told] = found["unanswered"]
    share = told["outcomes"]["answer-refused"]
    assert 0 < told["images"] < told["of"] == share["n"]
    assert share["low"] < share["estimate"] == told["images"] / told["of"] < share["high"]
    assert f"; answer-refused {share['estimate']:.3f} [" in str(UnansweredImages.model_validate(told))


async def test_a_hunt_counts_refusals_beside_failures(tmp_path: Path) -> None:
    def ports(world: FakeWorld) -> Any:
        return replace(hunted_services(world), classifiers=UnwillingHunted(world))

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        body = {
            "classifiers": ["steady"], "labels": ["plate"], "budget": {"images": 150}, "held_out": 16,
            "winners": 1, "hypotheses": 3, "captions": 12, "vary": 0.0, "seed": 5,
        }  # fmt: skip
        found = await summed(gateway, "/v1/bug-hunts", body)
    [baseline] = found["baselines"]
    failure = baseline["failure"]
    assert failure["dropped"]["unanswered"] > failure["made"] / 8
    assert failure["rate"]["n"] + sum(failure["dropped"].values()) == failure["made"]
    # A quarter of the images are refused; some that are answered are answered wrongly.
    assert failure["rate"]["estimate"] < 0.1
