"""Failures inside a source: only affected items fail, the rest continues, and a cancelled run stops."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.editor import EditedImage, EditRequest, EditResponse
from counterpose_core.contract.perturber import (
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.contract.scorer import EditScores, EmbedResponse, EmbedTextsRequest, ScoreItem
from counterpose_core.errors import BackendUnavailable, Cancelled, LeaseLost, ResourceExhausted
from counterpose_gateway.records.items import LeasedItem
from fakes.ports import (
    FakeClassifiers,
    FakeEditor,
    FakePerturber,
    FakeScorer,
    fake_services,
)
from fakes.recorder import FakeRecorder
from fakes.runs import outcome, states, stress_test
from fakes.world import FakeWorld


class _NothingPasses(FakeScorer):
    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"image_image": 0.1})


def problem(error: Exception) -> Problem:
    assert isinstance(error, ResourceExhausted | BackendUnavailable)
    return Problem.of(error)


class _OneEditFails(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        response = await super().edit(request)
        broken = Outcome[EditedImage](problem=problem(ResourceExhausted("out of memory")))
        return response.model_copy(update={"outcomes": [broken, *response.outcomes[1:]]})


@pytest.mark.fault("F14")
async def test_a_failed_edit_does_not_affect_other_items() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_OneEditFails(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    failed = outcome(items, record, "edit", "subject")
    assert isinstance(failed.error, ResourceExhausted)
    assert states(record) == {"done": 6, "failed": 1}


class _EditorDown(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise BackendUnavailable("the editor is down")


@pytest.mark.fault("F14")
async def test_a_failed_call_fails_only_the_items_that_need_it() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_EditorDown(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "reconstruction").state == "done"
    assert states(record) == {"done": 1, "failed": 6}
    assert all(found.error.retryable for found in record.outcomes.values() if found.error)


class _EditorCancels(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise Cancelled("the replica is stopping")


async def test_a_call_cancelled_by_a_service_leaves_items_retryable() -> None:
    world = FakeWorld()
    services = fake_services(world, editor=_EditorCancels(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    failed = [found.error for found in record.outcomes.values() if found.error is not None]
    assert [(error.code, error.retryable) for error in failed] == [("backend-unavailable", True)] * 6


class _PerturberDown(FakePerturber):
    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        raise BackendUnavailable("the perturber is down")


async def test_reconstructions_complete_without_the_perturber() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, perturber=_PerturberDown())
    )
    assert states(record) == {"done": 1, "failed": 6}


class _SentencesDown(FakeScorer):
    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        raise BackendUnavailable("the scorer is down")


async def test_without_the_sentence_encoder_no_edit_passes() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, scorer=_SentencesDown(world))
    )
    assert states(record) == {"done": 2, "failed": 5}


class _OneClassifierDown(FakeClassifiers):
    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        if request.classifier == "leaning":
            raise BackendUnavailable("the classifier is down")
        return await super().classify(request)


async def test_an_item_with_a_missing_prediction_fails() -> None:
    world = FakeWorld()
    services = fake_services(world, classifiers=_OneClassifierDown(world))
    _, record = await stress_test(world, [world.source("sled", 0)], services)
    assert states(record) == {"failed": 7}


class _Buggy(FakeEditor):
    async def edit(self, request: EditRequest) -> EditResponse:
        raise ZeroDivisionError


async def test_an_internal_error_fails_only_one_source() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world, [world.source("sled", 0)], fake_services(world, editor=_Buggy(world))
    )
    assert Counter(found.error.code for found in record.outcomes.values() if found.error) == {
        "internal-error": 7
    }


@pytest.mark.parametrize("polls", [0, 1, 2, 3, 5])
async def test_cancellation_stops_between_calls_and_leaves_items_open(polls: int) -> None:
    world = FakeWorld()
    record = FakeRecorder(cancel_after=polls)
    await stress_test(world, [world.source("sled", 0)], fake_services(world), record)
    assert record.polls == polls + 1
    assert all(found.state != "failed" for found in record.outcomes.values())
    assert len(record.outcomes) < 7


class _LosesTheLease(FakeRecorder):
    async def failed(self, item: LeasedItem, error: Exception) -> None:
        raise AssertionError("a lost lease is no failure of the item")

    async def filtered(self, item: LeasedItem, reason: str, detail: str = "", result: object = None) -> None:
        raise LeaseLost("another worker owns it")


@pytest.mark.fault("F6")
async def test_a_lost_lease_ends_the_attempt() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_NothingPasses(world))
    with pytest.raises(LeaseLost):
        await stress_test(world, [world.source("sled", 0)], services, _LosesTheLease())
