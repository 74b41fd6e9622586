"""One key, one effect: a repeat returns the stored answer, and a failed call can be repeated."""

from __future__ import annotations

import json

import pytest
from fastapi import Response
from pydantic import BaseModel

from counterpose_core.contract.datasets import DatasetCreate
from counterpose_core.errors import IdempotencyConflict, IdempotencyInFlight, StorageFull
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.idempotency import CLAIM_SECONDS, StoredAnswer
from counterpose_gateway.routes.datasets import answer_once
from counterpose_gateway.runs.submission import fingerprint
from fakes.ledgers import Clock

BODY = DatasetCreate(name="demo", classes=["sled", "boat"])


class Done(BaseModel):
    """The result of the work."""

    times: int


class Work:
    """Counts how often it is done; the first calls raise ``troubles``, one each."""

    def __init__(self, *troubles: BaseException) -> None:
        self.times = 0
        self._troubles = list(troubles)

    def __call__(self) -> Done:
        """Raise the next trouble, or count the call."""
        self.times += 1
        if self._troubles:
            raise self._troubles.pop(0)
        return Done(times=self.times)


def called(ledger: Ledger, work: Work, *, key: str | None = "key", scope: str = "datasets",
           body: BaseModel = BODY) -> Response:  # fmt: skip
    return answer_once(ledger, scope, key, body, work, status=201)


def test_every_call_without_a_key_does_the_work(ledger: Ledger) -> None:
    work = Work()
    assert [json.loads(bytes(called(ledger, work, key=None).body)) for _ in "12"] == [
        {"times": 1},
        {"times": 2},
    ]


def test_a_repeated_key_returns_the_first_answer(ledger: Ledger) -> None:
    work = Work()
    first, second = called(ledger, work), called(ledger, work)
    assert work.times == 1
    assert (first.status_code, first.body) == (second.status_code, second.body) == (201, b'{"times":1}')
    assert second.media_type == "application/json"


def test_keys_are_separate_for_each_resource(ledger: Ledger) -> None:
    work = Work()
    called(ledger, work, scope="datasets")
    called(ledger, work, scope="datasets/demo/sources")
    assert work.times == 2


@pytest.mark.fault("F16")
def test_another_body_with_the_same_key_is_refused_before_any_work(ledger: Ledger) -> None:
    work = Work()
    called(ledger, work)
    with pytest.raises(IdempotencyConflict, match="'key'"):
        called(ledger, work, body=DatasetCreate(name="demo", classes=["boat", "sled"]))
    assert work.times == 1


@pytest.mark.parametrize("trouble", [StorageFull("no room"), ZeroDivisionError(), KeyboardInterrupt()])
def test_a_call_after_a_failed_one_does_the_work(ledger: Ledger, trouble: BaseException) -> None:
    work = Work(trouble)
    with pytest.raises(type(trouble)):
        called(ledger, work)
    assert called(ledger, work).body == b'{"times":2}'
    assert called(ledger, work).body == b'{"times":2}'


@pytest.mark.fault("F15")
def test_a_repeat_is_refused_while_the_first_call_is_running(ledger: Ledger) -> None:
    work = Work()

    def slow() -> Done:
        with pytest.raises(IdempotencyInFlight, match="'key'") as refused:
            called(ledger, work)
        assert refused.value.retryable
        return Done(times=0)

    answer_once(ledger, "datasets", "key", BODY, slow, status=201)
    assert work.times == 0
    assert called(ledger, work).body == b'{"times":0}'


@pytest.mark.fault("F3")
def test_a_killed_call_blocks_its_repeat_for_at_most_a_minute(ledger: Ledger, clock: Clock) -> None:
    work = Work()
    ledger.idempotency.claim("datasets", "key", fingerprint(BODY))
    clock.now += CLAIM_SECONDS - 1
    with pytest.raises(IdempotencyInFlight):
        called(ledger, work)
    clock.now += 2
    assert called(ledger, work).body == b'{"times":1}'


def test_a_repeat_that_takes_over_an_expired_claim_is_in_flight(ledger: Ledger, clock: Clock) -> None:
    ledger.idempotency.claim("datasets", "key", fingerprint(BODY))
    clock.now += CLAIM_SECONDS + 1
    assert ledger.idempotency.claim("datasets", "key", fingerprint(BODY)) is None
    with pytest.raises(IdempotencyInFlight):
        ledger.idempotency.claim("datasets", "key", fingerprint(BODY))


def test_an_answer_outlives_the_claim(ledger: Ledger, clock: Clock) -> None:
    ledger.idempotency.claim("datasets", "key", "f")
    ledger.idempotency.answer("datasets", "key", StoredAnswer(status=200, body="{}"))
    clock.now += 24 * 3600
    assert ledger.idempotency.claim("datasets", "key", "f") == StoredAnswer(status=200, body="{}")


def test_the_fingerprint_depends_on_content_not_on_formatting() -> None:
    written = DatasetCreate.model_validate_json('{"classes": ["sled",  "boat"],\n "name": "demo"}')
    assert fingerprint(written) == fingerprint(BODY)
    assert fingerprint(DatasetCreate(name="demo")) != fingerprint(BODY)
