"""Questions that come while one is being answered wait, and are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Combining(Generic[Q, A]):
    """Answers one question at once, and those that come meanwhile by one call after it.

    Args:
        answer: returns one answer for each question, in their order; what it raises is raised by each.
        most: how many questions one call may have.
        unclaimed: takes an answer whose asker was cancelled; default: it is dropped.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Awaitable[Sequence[A | BaseException]]],
        *,
        most: int,
        unclaimed: Callable[[A], Awaitable[None]] | None = None,
    ) -> None:
        self._answer = answer
        self._most = most
        self._unclaimed = unclaimed
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._answering: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """Return the answer, or raise it."""
        answered: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answered))
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_all())
        return await answered

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer_some(asked)
        finally:
            self._answering = None

    async def _answer_some(self, asked: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._answer([question for question, _ in asked])
        except Exception as error:
            # A defect, too, belongs to those who asked: nobody awaits this task.
            answers = [error] * len(asked)
        for (_, answered), answer in zip(asked, answers, strict=True):
            if answered.cancelled():
                if self._unclaimed is not None and not isinstance(answer, BaseException):
                    await self._unclaimed(answer)
            elif isinstance(answer, BaseException):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)
