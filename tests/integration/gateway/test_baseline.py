"""The baseline: what each classifier answers to the user's own images, whatever becomes of the run."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from counterpose import AsyncClient, AsyncStressTest
from counterpose._cli.stress_test import stress_test_text
from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import (
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    Prediction,
)
from counterpose_core.contract.suite_fit import KnownImages
from counterpose_core.errors import BackendUnavailable, BadBackendOutput
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld, fake_suite
from integration.gateway.test_functions import ADDRESS

FOREIGN = KnownImages(caption_nats=-9.0, image_text=0.9, psnr_db=0.0, preset="quick", images=300)
PER_CLASS = 12
SENT = 4


class Wrong(FakeClassifiers):
    """``leaning`` takes one class for another, ``steady`` cannot read a third; one may be down."""

    down: str | None = None
    slow: asyncio.Event | None = None
    asked: asyncio.Event

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""
        if self.slow is not None and len(request.images) > 1:
            await self.slow.wait()
        if request.classifier == self.down:
            raise BackendUnavailable("away")
        answer = await super().classify(request)
        outcomes = [
            self._changed(request, image, outcome)
            for image, outcome in zip(request.images, answer.outcomes, strict=True)
        ]
        return answer.model_copy(update={"outcomes": outcomes})

    async def list_classifiers(self) -> ClassifierList:
        """Name both classifiers."""
        self.calls["listed"] += 1
        if self.calls["listed"] == SENT:
            self.asked.set()
        return await super().list_classifiers()

    def _changed(
        self, request: ClassifyRequest, image: str, outcome: Outcome[Prediction]
    ) -> Outcome[Prediction]:
        label = self.world.shown[image].label
        if request.classifier == "leaning" and label == CLASSES[0]:
            odds = [0.8 if name == CLASSES[1] else 0.0 for name in request.classes]
            return Outcome(value=Prediction(probabilities=odds, top=[odds.index(0.8)]))
        if request.classifier == "steady" and label == CLASSES[2]:
            return Outcome(problem=Problem.of(BadBackendOutput("no such colour")))
        return outcome


def services(world: FakeWorld) -> Services:
    """The fakes' services with these classifiers."""
    return fake_services(world, classifiers=Wrong(world))


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway whose suite does not know the images."""
    suite = fake_suite().model_copy(update={"known_images": FOREIGN})
    async with fake_gateway(tmp_path, suite=suite, ports=services) as opened:
        await opened.upload("mine", PER_CLASS)
        yield opened


async def created(gateway: FakeGateway, *classifiers: str) -> AsyncStressTest:
    return await AsyncClient(http=gateway.http).stress_tests.create(
        dataset="mine", classifiers=classifiers or ("leaning", "steady"), seed=0
    )


async def test_a_live_and_a_refused_run_begin_with_what_the_models_answer_to_the_images(
    gateway: FakeGateway,
) -> None:
    run = await created(gateway)
    leaning = (
        f"As they are: leaning is right on 36 of your 48 images (75 %, 95 % interval 61 to 85 %); takes "
        f"{CLASSES[0]} for {CLASSES[1]} (12); no other normalisation or channel order was tried, as it "
        "prepares its images itself."
    )
    assert leaning in html.unescape((await gateway.http.get(f"/ui/runs/{run.id}")).text)
    await gateway.worker(concurrency=1).work_off()
    assert (await run.refresh()).run.state == "failed"
    summary = await run.summary()
    mine, steady = summary.baseline
    assert [mistake.answer for mistake in mine.mistakes] == [CLASSES[1]] * 6
    assert {mistake.p for mistake in mine.mistakes} == {0.8}
    assert (steady.accuracy.estimate, steady.accuracy.n, steady.unanswered) == (1.0, 36, 12)
    assert "steady failed on 12 of your images: no such colour" in str(steady)
    for said in (str(summary), stress_test_text(summary)):
        assert said.index(leaning) < said.index(summary.verdict.splitlines()[0])
    report = html.unescape(await run.report())
    assert leaning in report[report.index('id="baseline"') :]
    assert f"{CLASSES[0]}, taken for <b>{CLASSES[1]}</b> (80 %)" in report


async def test_a_finished_run_begins_with_them_too(gateway: FakeGateway) -> None:
    run = await AsyncClient(http=gateway.http).stress_tests.create(
        dataset="mine", classifiers=["leaning"], outside_suite="continue", confirm=False, seed=0,
        edit_types=["background"], max_edits_per_image=1,
    )  # fmt: skip
    await gateway.worker().work_off()
    assert (await run.refresh()).run.state == "completed"
    report = await run.report()
    assert report.index('id="verdict"') < report.index('id="baseline"') < report.index('id="models"')


async def test_a_dry_run_says_them_and_a_classifier_that_is_away_is_left_out(gateway: FakeGateway) -> None:
    port = gateway.services.classifiers
    assert isinstance(port, Wrong)
    port.down = "steady"
    found = await AsyncClient(http=gateway.http).stress_tests.estimate(
        dataset="mine", classifiers=["leaning", "steady"], outside_suite="continue"
    )
    assert [each.classifier for each in found.baseline] == ["leaning"]
    assert str(found.baseline[0]) in str(found)


@pytest.mark.parametrize("functions", [{}, {"leaning": ADDRESS}])
async def test_a_request_that_is_sent_again_joins_the_measuring_that_is_under_way(
    gateway: FakeGateway, functions: dict[str, str]
) -> None:
    port = gateway.services.classifiers
    assert isinstance(port, Wrong)
    port.slow, port.asked = asyncio.Event(), asyncio.Event()
    body = {"dataset": "mine", "classifiers": ["steady", *functions], "seed": 0, "functions": functions}

    async def send(key: str) -> str:
        answer = await gateway.http.post("/v1/stress-tests", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    sent = [asyncio.ensure_future(send(key)) for key in ("one", "one", "one", "another")]
    await port.asked.wait()
    await asyncio.sleep(0.1)
    port.slow.set()
    first, second, third, other = await asyncio.gather(*sent)
    assert first == second == third != other
    assert port.calls["steady"] == 1
    # A model that another replaces has its name, and not its answers.
    await send("later")
    assert port.calls["steady"] == 2
