"""A POST that is sent twice with one key does its work once and gets the same answer twice."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Response
from pydantic import BaseModel

from faultline_gateway.ledger import Ledger, StoredAnswer
from faultline_gateway.runs.submission import fingerprint


def answer_once(
    ledger: Ledger,
    scope: str,
    key: str | None,
    body: BaseModel,
    work: Callable[[], BaseModel],
    *,
    status: int,
) -> Response:
    """Do ``work`` and answer its result, or repeat what the first call with ``key`` answered.

    A failure is not kept: the next call with the key does the work again.

    Raises:
        IdempotencyConflict: the key was used with another body.
        IdempotencyInFlight: the first call has not answered yet.
    """
    if key is None:
        return _response(StoredAnswer(status, work().model_dump_json()))
    known = ledger.claim(scope, key, fingerprint(body))
    if known is not None:
        return _response(known)
    try:
        answer = StoredAnswer(status, work().model_dump_json())
    except BaseException:
        # If kept, the claim would answer "in flight" to the retry.
        ledger.forget(scope, key)
        raise
    ledger.answer(scope, key, answer)
    return _response(answer)


def _response(answer: StoredAnswer) -> Response:
    return Response(answer.body, answer.status, media_type="application/json")
