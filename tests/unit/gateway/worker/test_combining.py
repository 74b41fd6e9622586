"""Questions are answered one at once, and together while one is being answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from counterpose_gateway.worker.combining import Combining
from fakes.processes import poll_until


class Doubling:
    """Doubles numbers when it is let go on; a negative number is refused."""

    def __init__(self, most: int = 10) -> None:
        self.calls: list[list[int]] = []
        self.go_on = asyncio.Event()
        self.unclaimed: list[int] = []
        self.combining = Combining[int, int](self._answer, most=most, unclaimed=self._take)

    async def _answer(self, numbers: Sequence[int]) -> Sequence[int | BaseException]:
        self.calls.append(list(numbers))
        await self.go_on.wait()
        if 0 in numbers:
            raise ZeroDivisionError("a defect")
        return [2 * each if each > 0 else ValueError(f"{each} is negative") for each in numbers]

    async def _take(self, answer: int) -> None:
        self.unclaimed.append(answer)

    async def ask(self, *numbers: int) -> list[int | BaseException]:
        """Ask all at once; the first is asked alone."""
        asked = [asyncio.create_task(self.combining.ask(each)) for each in numbers]
        await asyncio.sleep(0)
        self.go_on.set()
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_what_comes_while_one_is_answered_is_answered_together() -> None:
    doubling = Doubling(most=3)
    first = asyncio.create_task(doubling.combining.ask(1))
    await poll_until(lambda: doubling.calls == [[1]])
    assert await doubling.ask(2, 3, 4, 5) == [4, 6, 8, 10]
    assert await first == 2
    assert doubling.calls == [[1], [2, 3, 4], [5]]


async def test_each_question_has_its_own_error() -> None:
    answers = await Doubling().ask(1, -1, 2)
    assert [str(each) for each in answers] == ["2", "-1 is negative", "4"]


async def test_a_defect_is_raised_by_all_that_were_asked_with_it_and_by_no_later_one() -> None:
    doubling = Doubling()
    assert [type(each) for each in await doubling.ask(0, 1)] == [ZeroDivisionError] * 2
    assert await doubling.combining.ask(3) == 6


async def test_the_answer_of_a_cancelled_question_is_handed_over() -> None:
    doubling = Doubling()
    asked = asyncio.create_task(doubling.combining.ask(1))
    await poll_until(lambda: doubling.calls == [[1]])
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await doubling.ask(2) == [4]
    assert doubling.unclaimed == [2]
