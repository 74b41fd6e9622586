"""Calls whose failure fails no item are made again when they miss their deadline, and only then."""

from __future__ import annotations

import pytest

from counterpose_core.errors import BackendUnavailable, CounterposeError, DeadlineExceeded
from counterpose_gateway.runs.calls import repeated


class Call:
    """Fails with the given errors, one after the other, and then answers."""

    def __init__(self, *errors: CounterposeError) -> None:
        self.errors = list(errors)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


async def test_a_call_that_missed_its_deadline_is_made_again() -> None:
    call = Call(DeadlineExceeded("late"), DeadlineExceeded("late"))
    assert await repeated(call) == "answer"
    assert call.made == 3


async def test_the_third_missed_deadline_is_the_last() -> None:
    call = Call(*(DeadlineExceeded(f"late {number}") for number in range(1, 5)))
    with pytest.raises(DeadlineExceeded, match="late 3"):
        await repeated(call)


async def test_what_the_caller_has_tried_for_long_is_not_tried_again() -> None:
    call = Call(BackendUnavailable("away for minutes"))
    with pytest.raises(BackendUnavailable):
        await repeated(call)
    assert call.made == 1
