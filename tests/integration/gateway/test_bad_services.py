"""Services that are down, slow or lying, over HTTP with a real ledger: items are retried, then fail.

Whatever a service answers, the run ends, failed items state a reason, and no figure uses bad answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.classifiers import ClassifierList, ClassifyRequest, ClassifyResponse
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import (
    BackendUnavailable,
    ClassMapMismatch,
    CounterposeError,
    ImageUndecodable,
    InternalError,
    ModelFormatRefused,
    RateLimited,
)
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.services.clients import services_of
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakeCaptioner, FakeClassifiers, FakeScorer, fake_services, refusing
from fakes.problems import problem
from fakes.service_http import Lie, caller_over, refusal, served
from fakes.world import CLASSES, FakeWorld

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background", "domain"],
        "max_edits_per_image": 2, "lance_r_edits_per_image": 0, "seed": 3}  # fmt: skip
PER_SOURCE = 4
EDIT, SCORE, CLASSIFY = "/editor/v1/edit", "/scorer/v1/score", "/classifiers/v1/classify"
RECONSTRUCT, CAPTION, PERTURB = "/editor/v1/reconstruct", "/captioner/v1/caption", "/perturber/v1/perturb"


@dataclass
class Ended:
    """A finished run, its items and its figures."""

    run: Run
    items: list[Item]
    summary: StressTestSummary
    report: str

    def codes(self) -> dict[str | None, int]:
        """How many items failed under which code."""
        failed = [item.code for item in self.items if item.state == "failed"]
        return {code: failed.count(code) for code in failed}


async def one_sled(gateway: FakeGateway) -> None:
    """A dataset of one image among all four classes."""
    await gateway.http.post("/v1/datasets", json={"name": "demo", "classes": list(CLASSES)})
    await gateway.upload("demo", 1, classes=("sled",))


async def run_to_its_end(gateway: FakeGateway, services: Services, clock: Clock, **changes: Any) -> Ended:
    """Create the run, let a worker try it until no item is pending, and read it as a user would."""
    run = (await gateway.http.post(ROOT, json=BODY | changes)).json()["id"]
    for _ in range(MAX_ATTEMPTS):
        await gateway.worker(services).work_off()
        clock.now += 60
    found = Run.model_validate((await gateway.http.get(f"/v1/runs/{run}")).json())
    assert found.request_counts.pending == 0
    assert violated(gateway.ledger, run) == []
    report = await gateway.http.get(f"/v1/runs/{run}/report")
    assert report.status_code == 200
    summary = StressTestSummary.model_validate_json(
        (await gateway.http.get(f"/v1/runs/{run}/summary")).content
    )
    return Ended(found, list(gateway.ledger.items.all(run)), summary, report.text)


def text(answer: str, status: int = 200) -> Lie:
    return lambda good: httpx.Response(status, text=answer)


def raising(error: Exception) -> Lie:
    def lie(good: bytes) -> httpx.Response:
        raise error

    return lie


def changed(path: str, value: object) -> Lie:
    """The good answer with ``value`` at ``path`` of each outcome's value, NaN and Infinity included."""

    def lie(good: bytes) -> httpx.Response:
        body = json.loads(good)
        for outcome in body["outcomes"]:
            place, *steps = outcome["value"], *path.split("/")
            for step in steps[:-1]:
                place = place[int(step) if step.isdecimal() else step]
            place[steps[-1]] = value
        return httpx.Response(200, text=json.dumps(body))

    return lie


def outcomes(change: int) -> Lie:
    """One outcome too few (-1) or too many (+1)."""

    def lie(good: bytes) -> httpx.Response:
        body = json.loads(good)
        made = body["outcomes"]
        return httpx.Response(200, json=body | {"outcomes": made[:-1] if change < 0 else [*made, made[0]]})

    return lie


BAD, AWAY, SLOW = "bad-backend-output", "backend-unavailable", "deadline-exceeded"
NAN, INFINITY = float("nan"), float("inf")
TROUBLES: dict[str, tuple[str, Lie, str, int]] = {
    "a dead editor": (EDIT, raising(httpx.ConnectError("refused")), AWAY, 3),
    "an editor that dies in the middle": (EDIT, raising(httpx.ReadError("reset")), AWAY, 3),
    "an editor whose replica died": (EDIT, text("Internal Server Error", 500), AWAY, 3),
    "an editor that sheds load": (
        EDIT,
        lambda good: refusal(RateLimited("the queue is full")),
        "rate-limited",
        3,
    ),
    "an editor that hangs": (EDIT, raising(httpx.ReadTimeout("slow")), SLOW, 3),
    "a captioner that hangs": (CAPTION, raising(httpx.ReadTimeout("slow")), SLOW, 4),
    "a web page for images": (EDIT, text("<html><body>welcome</body></html>"), BAD, 3),
    "a web page for captions": (CAPTION, text("<html></html>"), BAD, 4),
    "a web page for proposals": (PERTURB, text("<html></html>"), BAD, 3),
    "a web page for scores": (SCORE, text("<html></html>"), BAD, 3),
    "a web page for predictions": (CLASSIFY, text("<html></html>"), BAD, 4),
    "a login page elsewhere": (
        EDIT,
        lambda good: httpx.Response(302, headers={"location": "/login"}),
        BAD,
        3,
    ),
    "an answer cut off": (EDIT, lambda good: httpx.Response(200, content=good[:-20]), BAD, 3),
    "an empty answer": (SCORE, text(""), BAD, 3),
    "one edit too few": (EDIT, outcomes(-1), BAD, 3),
    "one score too many": (SCORE, outcomes(+1), BAD, 3),
    "one prediction too few": (CLASSIFY, outcomes(-1), BAD, 4),
    "no caption at all": (CAPTION, outcomes(-1), BAD, 4),
    "NaN for a score": (SCORE, changed("direction", NAN), BAD, 3),
    "infinity for a score": (SCORE, changed("image_image", INFINITY), BAD, 3),
    "a score of 17": (SCORE, changed("text_edited", 17.0), BAD, 3),
    "words for a score": (SCORE, changed("direction", "good"), BAD, 3),
    "NaN for a reconstruction's error": (RECONSTRUCT, changed("psnr_db", NAN), BAD, 1),
    "a path for an image": (EDIT, changed("variants/0/image", "../../etc/passwd"), BAD, 3),
    "an image that was never stored": (RECONSTRUCT, changed("image", "0" * 64), BAD, 1),
    "another sweep value": (EDIT, changed("variants/0/strength", 0.123), BAD, 3),
    "probabilities of the wrong shape": (CLASSIFY, changed("probabilities", [1.0]), BAD, 4),
    "NaN for a probability": (CLASSIFY, changed("probabilities", [NAN] * 4), BAD, 4),
    "probabilities above one": (CLASSIFY, changed("probabilities", [9.0, 0.0, 0.0, 0.0]), BAD, 4),
    "a caption without words": (CAPTION, changed("text", "  "), BAD, 4),
    "a caption without end": (CAPTION, changed("text", "sled " * 2000), BAD, 4),
    "a caption with a NUL": (CAPTION, changed("text", "a sl\x00ed"), BAD, 4),
    "a proposal without end": (PERTURB, changed("edits/0/edited_caption", "sled " * 2000), BAD, 3),
}


@pytest.mark.fault("F12", "F13", "F27")
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_bad_service_fails_items_with_a_reason_and_gives_no_figure(
    tmp_path: Path, trouble: str
) -> None:
    path, lie, code, failed = TROUBLES[trouble]
    clock = Clock()
    async with fake_gateway(tmp_path, clock) as gateway:
        await one_sled(gateway)
        services = services_of(caller_over(served(gateway.services, {path: lie})))
        ended = await run_to_its_end(gateway, services, clock)
    assert ended.codes() == {code: failed}
    tried = {item.attempts for item in ended.items if item.state == "failed"}
    assert tried == {MAX_ATTEMPTS}
    assert all(item.detail for item in ended.items if item.state == "failed")
    assert ended.run.state == ("failed" if failed == PER_SOURCE else "completed_with_failures")
    assert ended.summary.failed_codes == {code: failed}
    assert code in ended.report
    if failed >= 3:
        assert ended.summary.models["steady"].counterfactual.hit_rates[0].n == 0
        assert ended.summary.models["steady"].drop.estimate is None
        assert "No verdict" in ended.summary.verdict
    if failed == PER_SOURCE:
        assert ended.summary.models["steady"].original.hit_rates[0].n == 0


async def test_a_permanent_service_error_is_not_retried(tmp_path: Path) -> None:
    clock = Clock()
    async with fake_gateway(tmp_path, clock) as gateway:
        await one_sled(gateway)
        lies: Mapping[str, Lie] = {EDIT: lambda good: refusal(InternalError("a defect"))}
        services = services_of(caller_over(served(gateway.services, lies)))
        ended = await run_to_its_end(gateway, services, clock)
    assert ended.codes() == {"internal-error": 3}
    assert {item.attempts for item in ended.items if item.state == "failed"} == {1}


@pytest.mark.fault("F27")
async def test_a_service_that_recovers_loses_no_items(tmp_path: Path) -> None:
    clock, asked = Clock(), [0]

    def shaky(good: bytes) -> httpx.Response:
        asked[0] += 1
        return httpx.Response(200, text="<html>" if asked[0] <= 2 else good.decode())

    async with fake_gateway(tmp_path, clock) as gateway:
        await one_sled(gateway)
        services = services_of(caller_over(served(gateway.services, {EDIT: shaky})))
        ended = await run_to_its_end(gateway, services, clock)
    assert ended.run.state == "completed"
    assert {item.attempts for item in ended.items if item.kind != "reconstruction"} == {3}
    assert ended.summary.models["steady"].counterfactual.hit_rates[0].n == 1


class OneBadImage(FakeCaptioner):
    """Cannot read one of the images, like a service that decodes more strictly than the gateway."""

    bad = ""

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Refuse the bad image by name, caption the others."""
        answer = await super().caption(request)
        unreadable = ImageUndecodable("the bytes are broken as an image")
        return refusing(answer, [item.image == self.bad for item in request.items], unreadable)


@pytest.mark.fault("B4")
async def test_a_bad_image_fails_only_its_own_items(tmp_path: Path) -> None:
    clock = Clock()
    async with fake_gateway(tmp_path, clock) as gateway:
        await gateway.upload("demo", 1)
        captioner = OneBadImage(gateway.world)
        captioner.bad = gateway.ledger.datasets.sources("demo")[0].image
        ended = await run_to_its_end(gateway, fake_services(gateway.world, captioner=captioner), clock)
    assert ended.run.state == "completed_with_failures"
    assert ended.codes() == {"image-undecodable": PER_SOURCE}
    assert {item.source_image for item in ended.items if item.state == "failed"} == {captioner.bad}
    assert ended.summary.models["steady"].counterfactual.hit_rates[0].n == 3
    assert ended.summary.counts["failed"] == PER_SOURCE


class NothingPasses(FakeScorer):
    """Finds that no edit kept its image."""

    def measure(self, item: ScoreItem) -> EditScores:
        """The gate's criteria, all but one of them met."""
        return super().measure(item).model_copy(update={"image_image": 0.1})


@pytest.mark.fault("B64")
async def test_a_report_without_surviving_edits_renders_and_says_so(tmp_path: Path) -> None:
    clock = Clock()
    async with fake_gateway(tmp_path, clock) as gateway:
        await gateway.upload("demo", 1)
        services = fake_services(gateway.world, scorer=NothingPasses(gateway.world))
        ended = await run_to_its_end(gateway, services, clock)
    assert ended.run.state == "completed"
    assert ended.summary.verdict.startswith("No verdict: no edit of 16 planned items survived")
    assert ended.summary.models["steady"].counterfactual.hit_rates[0].n == 0
    assert ended.summary.dropped == {"gate-image-image": 12}
    assert "No edit survived the filters" in ended.report


class Refusing(FakeClassifiers):
    """Answers every call with one error."""

    error: CounterposeError = InternalError()

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Refuse."""
        raise self.error

    async def list_classifiers(self) -> ClassifierList:
        """List no classifier, so that each is tried on an image; raise if the service is down."""
        if isinstance(self.error, BackendUnavailable):
            raise self.error
        return ClassifierList(classifiers=[])


@pytest.mark.fault("B40", "B44")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (
            ModelFormatRefused("'leaning' holds pytorch_model.bin and no safetensors"),
            422,
            "model-format-refused",
        ),
        (ClassMapMismatch("the class map lacks 'kite'"), 422, "class-map-mismatch"),
        (BackendUnavailable("the classifiers cannot be reached"), 503, "backend-unavailable"),
    ],
)
async def test_an_unavailable_classifier_is_refused_at_creation(
    tmp_path: Path, error: CounterposeError, status: int, code: str
) -> None:
    def ports(world: FakeWorld) -> Services:
        refusing = Refusing(world)
        refusing.error = error
        return fake_services(world, classifiers=refusing)

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        await gateway.upload("demo", 1)
        answer = await gateway.http.post(ROOT, json=BODY | {"classifiers": ["local:leaning"]})
        found = problem(answer, status, code)
        assert gateway.ledger.runs.page().runs == []
    assert found.detail == error.detail
    assert found.retryable is error.retryable
    assert ("retry-after" in answer.headers) is error.retryable
