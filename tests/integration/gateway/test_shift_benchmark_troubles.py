"""Benchmarks with failing images, services or workers: one outcome per image, nothing lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.contract.editor import GeneratedImage, GenerateItem, GenerateRequest, GenerateResponse
from counterpose_core.contract.runs import Run
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedResponse
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, ImageUndecodable, PromptTooLong
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.services.ports import Services
from fakes.benchmarks import TokenEditor, WordScorer, benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakeClassifiers, refusing
from fakes.store import blank_image
from fakes.world import fake_suite

SMALL = {"shifts": ["in the snow"], "classes": ["plate"], "image_sources": ["token"], "n": 3, "real": 2}


@pytest.fixture
async def gateway(tmp_path: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path, clock, ports=benchmark_services) as opened:
        yield opened


async def created(gateway: FakeGateway, **changes: Any) -> Run:
    body = benchmark_body(await uploaded(gateway, 2), **(SMALL | changes))
    answer = await gateway.http.post("/v1/shift-benchmarks", json=body)
    assert answer.status_code == 202, answer.text
    return Run.model_validate_json(answer.content)


def images(gateway: FakeGateway, run: Run) -> list[ImageItem]:
    return list(gateway.ledger.items.of(run.id, ImageItem))


def ends(gateway: FakeGateway, run: Run) -> Counter[str]:
    return Counter(item.code or item.reason or item.state for item in images(gateway, run))


async def worked_off(gateway: FakeGateway, clock: Clock, services: Services) -> None:
    """Work until every retry is spent."""
    for _ in range(MAX_ATTEMPTS + 1):
        await gateway.worker(services).work_off()
        clock.now += 60.0


class OneBadImage(TokenEditor):
    """Cannot draw the first image under snow."""

    def __init__(self, gateway: FakeGateway) -> None:
        super().__init__(gateway.world)

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Answer a problem in its place."""
        response = await super().generate(request)
        if "snow" not in request.items[0].prompt or len(request.items) < 3:
            return response
        problem = Problem.of(PromptTooLong("too many tokens"))
        outcomes = [Outcome[GeneratedImage](problem=problem), *response.outcomes[1:]]
        return response.model_copy(update={"outcomes": outcomes})


@pytest.mark.fault("B4")
async def test_a_bad_image_does_not_affect_others(gateway: FakeGateway, clock: Clock) -> None:
    run = await created(gateway, steps=50)
    await worked_off(gateway, clock, benchmark_services(gateway.world, editor=OneBadImage(gateway)))
    assert ends(gateway, run) == {"done": 2 + 3 + 2, "prompt-too-long": 1}
    assert gateway.ledger.runs.get(run.id).state == "completed_with_failures"
    # What the call took for all three is booked on those that are there.
    spent = sum(item.result.cost.unet_calls for item in images(gateway, run) if item.result)
    assert spent == 2 * 50


class Blank(TokenEditor):
    """Answers an image of one colour."""

    def make(self, request: GenerateRequest, item: GenerateItem) -> GeneratedImage:
        """A black frame."""
        return GeneratedImage(image=self.world.store.put(blank_image()))


class NotANumber(WordScorer):
    """Embeds images as zeros."""

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Answer zeros."""
        response = await super().embed_images(request)
        zeros = [outcome.model_copy(deep=True) for outcome in response.outcomes]
        for outcome in zeros:
            assert outcome.value is not None
            outcome.value.vector[:] = [0.0] * len(outcome.value.vector)
        return response.model_copy(update={"outcomes": zeros})


class Unsure(FakeClassifiers):
    """Gives probabilities that are none."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        """Answer 2."""
        return Prediction(probabilities=[2.0] * len(request.classes), top=[0])


class Away(FakeClassifiers):
    """Is not there."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Refuse."""
        raise BackendUnavailable("away")


@pytest.mark.fault("F12")
@pytest.mark.parametrize(
    ("port", "broken", "code", "generated_only"),
    [
        ("editor", Blank, "bad-backend-output", True),
        ("scorer", NotANumber, "bad-backend-output", False),
        ("classifiers", Unsure, "bad-backend-output", False),
        ("classifiers", Away, "backend-unavailable", False),
    ],
)
async def test_a_lying_or_unreachable_service_produces_no_scores(
    gateway: FakeGateway, clock: Clock, port: str, broken: Any, code: str, generated_only: bool
) -> None:
    run = await created(gateway)
    await worked_off(gateway, clock, benchmark_services(gateway.world, **{port: broken(gateway.world)}))
    assert ends(gateway, run) == ({"done": 2, code: 6} if generated_only else {code: 8})
    assert violated(gateway.ledger, run.id) == []
    summary = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    assert summary.status_code == 200
    assert summary.json()["image_sources"]["token"]["base"]["counts"]["failed"] == 3
    # Once the service is back, what failed is taken up again, and the images are the same.
    gateway.ledger.runs.resume(run.id)
    await worked_off(gateway, clock, gateway.services)
    assert ends(gateway, run) == {"done": 8}


class OneFails(FakeClassifiers):
    """``leaning`` cannot answer the first image of a call under snow; ``steady`` answers all."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answer a problem in its place."""
        response = await super().classify(request)
        if request.classifier == "steady" or "snow" not in self.world.shown[request.images[0]].caption:
            return response
        problem = Problem.of(BadBackendOutput("'leaning' failed on this image: it has NaN"))
        outcomes = [Outcome[Prediction](problem=problem), *response.outcomes[1:]]
        return response.model_copy(update={"outcomes": outcomes})


class OneAway(FakeClassifiers):
    """``leaning`` is not there."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Refuse for it alone."""
        if request.classifier == "leaning":
            raise BackendUnavailable("away")
        return await super().classify(request)


@pytest.mark.parametrize(("broken", "failed"), [(OneFails, 1), (OneAway, 8)])
async def test_a_classifier_that_fails_is_left_out_and_the_others_count(
    gateway: FakeGateway, clock: Clock, broken: type[FakeClassifiers], failed: int
) -> None:
    run = await created(gateway)
    services = benchmark_services(gateway.world, classifiers=broken(gateway.world))
    await gateway.worker(services).work_off()
    # One that is down is waited for until the last attempt.
    assert (ends(gateway, run)["done"] == 8) is (broken is OneFails)
    await worked_off(gateway, clock, services)
    assert ends(gateway, run) == {"done": 8}
    assert gateway.ledger.runs.get(run.id).state == "completed"
    assert violated(gateway.ledger, run.id) == []
    results = [item.result for item in images(gateway, run) if item.result]
    assert all("steady" in result.predictions for result in results)
    assert sum("leaning" not in result.predictions for result in results) == failed
    assert all(("leaning" in result.unanswered) != ("leaning" in result.predictions) for result in results)
    summary = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
    (told,) = summary["unanswered"]
    assert (told["classifier"], told["images"], told["of"]) == ("leaning", failed, 8)
    report = (await gateway.http.get(f"/v1/runs/{run.id}/report")).text
    assert f"leaning failed on {failed} of 8 images" in report


class Cancelling(TokenEditor):
    """Cancels the run while it draws under snow."""

    def __init__(self, gateway: FakeGateway) -> None:
        super().__init__(gateway.world)
        self.gateway = gateway
        self.run_id = ""

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Draw, and cancel meanwhile."""
        if "snow" in request.items[0].prompt:
            self.gateway.ledger.runs.cancel(self.run_id)
        return await super().generate(request)


@pytest.mark.fault("F19")
async def test_a_cancelled_run_keeps_finished_items_and_records_nothing_more(
    gateway: FakeGateway, clock: Clock
) -> None:
    run = await created(gateway)
    editor = Cancelling(gateway)
    editor.run_id = run.id
    await gateway.worker(benchmark_services(gateway.world, editor=editor), concurrency=1).work_off()
    assert ends(gateway, run) == {"done": 2 + 3, "cancelled": 3}
    assert gateway.ledger.runs.get(run.id).state == "cancelled"
    assert violated(gateway.ledger, run.id) == []
    summary = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
    assert summary["image_sources"]["token"]["shifts"]["in the snow"]["counts"]["unmade"] == 3
    gateway.ledger.runs.resume(run.id)
    await worked_off(gateway, clock, gateway.services)
    assert ends(gateway, run) == {"done": 8}


class Hanging(TokenEditor):
    """Never answers under snow."""

    def __init__(self, gateway: FakeGateway) -> None:
        super().__init__(gateway.world)
        self.reached = asyncio.Event()

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Hang."""
        if "snow" in request.items[0].prompt:
            self.reached.set()
            await asyncio.Event().wait()
        return await super().generate(request)


async def test_items_of_a_killed_worker_are_leased_again_and_recorded_once(
    gateway: FakeGateway, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await created(gateway)
    hanging = Hanging(gateway)
    worker = gateway.worker(benchmark_services(gateway.world, editor=hanging), concurrency=1)
    with monkeypatch.context() as patched:
        # A killed process gives nothing back.
        patched.setattr(worker, "_release", _nothing)
        work = asyncio.create_task(worker.work_off())
        await hanging.reached.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert Counter(item.state for item in images(gateway, run)) == {"done": 2 + 3, "leased": 3}
    clock.now += 31.0
    await gateway.worker().work_off()
    found = images(gateway, run)
    assert Counter(item.state for item in found) == {"done": 8}
    assert {item.attempts for item in found if "snow" in ((item.result and item.result.shift) or "")} == {2}
    assert violated(gateway.ledger, run.id) == []
    assert len({(item.item_group, item.slot) for item in found}) == 8


async def _nothing(*arguments: object) -> None:
    """Do nothing."""


@pytest.mark.fault("T17")
async def test_objectionable_images_are_filtered_and_counted(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:

    suite = fake_suite()
    scorer = suite.scorer.model_copy(update={"objectionable": -1.0})
    monkeypatch.setattr("fakes.gateway.fake_suite", lambda: suite.model_copy(update={"scorer_part": scorer}))
    async with fake_gateway(tmp_path, clock, ports=benchmark_services) as gateway:
        run = await created(gateway)
        await worked_off(gateway, clock, gateway.services)
        # Users' own images are not judged, and every generated image reaches so low a threshold.
        assert ends(gateway, run) == {"done": 2, "objectionable": 6}
        counts = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
        assert counts["image_sources"]["token"]["base"]["counts"]["objectionable"] == 3


async def test_too_few_retrieved_images_are_filtered_with_a_reason(
    gateway: FakeGateway, clock: Clock
) -> None:
    interface = await uploaded(gateway, 2)
    await gateway.upload("folder", 1, ("plate", "sled"))
    body = benchmark_body(interface, **(SMALL | {"image_sources": ["retrieval"], "retrieval": "folder"}))
    run = Run.model_validate_json((await gateway.http.post("/v1/shift-benchmarks", json=body)).content)
    await worked_off(gateway, clock, gateway.services)
    assert ends(gateway, run) == {"done": 2 + 2 * 2, "not-found": 2}


class Blind(WordScorer):
    """Cannot read one image."""

    lost = ""

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Answer a problem in its place."""
        response = await super().embed_images(request)
        lost = [image == self.lost for image in request.images]
        return refusing(response, lost, ImageUndecodable("no image"))


@pytest.mark.fault("B47")
async def test_summary_and_report_list_unreadable_images(gateway: FakeGateway, clock: Clock) -> None:
    interface = await uploaded(gateway, 2)
    await gateway.upload("folder", 4, ("boat",))
    scorer = Blind(gateway.world)
    scorer.lost = gateway.ledger.datasets.sources("folder")[1].image
    body = benchmark_body(interface, **(SMALL | {"image_sources": ["retrieval"], "retrieval": "folder"}))
    run = Run.model_validate_json((await gateway.http.post("/v1/shift-benchmarks", json=body)).content)
    await worked_off(gateway, clock, benchmark_services(gateway.world, scorer=scorer))
    summary = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
    assert summary["image_sources"]["retrieval"]["unsearched"] == {
        "count": 1,
        "images": 4,
        "reasons": {"image-undecodable": 1},
        "first": [{"image": scorer.lost, "filename": "boat-1.png", "reason": "image-undecodable"}],
    }
    report = (await gateway.http.get(f"/v1/runs/{run.id}/report")).text
    assert "1 of 4 images of" in report
    assert "(image-undecodable: 1): boat-1.png" in report


@pytest.mark.fault("B47")
async def test_a_folder_changed_after_planning_is_searched_as_planned(
    gateway: FakeGateway, clock: Clock
) -> None:
    interface = await uploaded(gateway, 2)
    await gateway.upload("folder", 4, ("kite",))
    before = {source.image for source in gateway.ledger.datasets.sources("folder")}
    body = benchmark_body(
        interface, **(SMALL | {"image_sources": ["retrieval"], "retrieval": "folder", "n": 9})
    )
    run = Run.model_validate_json((await gateway.http.post("/v1/shift-benchmarks", json=body)).content)
    await gateway.upload("folder", 4, ("plate",))
    await worked_off(gateway, clock, gateway.services)
    done = [item.result for item in images(gateway, run) if item.result is not None]
    # Though what came later shows the class, and what was there does not.
    assert {result.image for result in done if result.image_source == "retrieval"} == before
    newer = Run.model_validate_json((await gateway.http.post("/v1/shift-benchmarks", json=body)).content)
    await worked_off(gateway, clock, gateway.services)
    found = [item.result for item in images(gateway, newer) if item.result is not None]
    assert len({result.image for result in found if result.image_source == "retrieval"} - before) == 4
