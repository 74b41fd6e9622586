"""The step engine: the walks of all requests in one loop, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TypeVar

import torch

from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Owner, Walk
from counterpose_core.errors import BackendUnavailable, InternalError
from counterpose_core.types import Cost
from counterpose_services.editor.step_engine.capacity import RowLimits
from counterpose_services.editor.step_engine.counters import StepCounters
from counterpose_services.editor.step_engine.mode import ModalDenoiser
from counterpose_services.editor.step_engine.step_loop import StepLoop
from counterpose_services.editor.step_engine.walk_under_way import Terms, WalkUnderWay

T = TypeVar("T")

_logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""Seconds without work after which the loop's thread ends, so that an engine that nobody uses leaves
none behind."""
STOPPED = "the editor's engine has stopped; retry later"


class StepEngine:
    """Runs the walks of several threads at once; their results do not depend on each other.

    A thread submits by `RequestRunner.run` and waits. The loop's own thread makes every call of the network.
    A walk whose caller has gone ends before the next call, and its rows are in no call after that.
    """

    def __init__(self, denoiser: ModalDenoiser, limits: RowLimits) -> None:
        self._loop = StepLoop(denoiser, limits)
        self._arrivals: list[WalkUnderWay] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def counters(self) -> StepCounters:
        """What the engine has done so far."""
        return self._loop.counters

    def runner(self, terms: Terms | None = None) -> RequestRunner:
        """Return what runs the walks of one request, and counts what they cost."""
        return RequestRunner(self, terms or Terms())

    def submit(self, walk: WalkUnderWay) -> None:
        """Add a walk; its ``ended`` has the result later.

        Raises:
            BackendUnavailable: the engine was closed.
        """
        with self._changed:
            if self._closed:
                raise BackendUnavailable(STOPPED)
            self._arrivals.append(walk)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="step-engine", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the loop; walks that are under way end with BackendUnavailable."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join()

    @torch.no_grad()
    def _run(self) -> None:
        while self._admit():
            try:
                self._loop.turn()
            # Whoever waits must get an answer, and the thread must live: a fault of ours ends these walks.
            except Exception as error:
                _logger.exception("a turn of the step engine failed")
                self._loop.fail(InternalError(f"unexpected {type(error).__name__}: {error}"))

    def _admit(self) -> bool:
        """Wait for work and begin the walks that have arrived; False once the engine is closed or idle."""
        with self._changed:
            if not (self._loop.busy or self._arrivals or self._closed):
                # The weights go back to their own precision before a long wait.
                self._loop.leave_mode()
                self._changed.wait(IDLE_S)
            arrived, self._arrivals = self._arrivals, []
            if self._closed or not (self._loop.busy or arrived):
                # Under the lock: whoever submits next starts another thread.
                self._thread = None
                self._loop.leave_mode()
                self._loop.fail(BackendUnavailable(STOPPED))
                for walk in arrived:
                    walk.fail(BackendUnavailable(STOPPED))
                return False
        self._loop.begin(arrived)
        return True


class RequestRunner:
    """Runs the walks of one request in the engine, and counts what they cost."""

    def __init__(self, engine: StepEngine, terms: Terms) -> None:
        self._engine, self._terms = engine, terms
        self._account = Account()

    @property
    def total(self) -> Cost:
        """The cost of all walks so far."""
        return self._account.total

    def cost(self, owner: Owner) -> Cost:
        """Return the cost of an owner's evaluations so far, as `Account.cost` counts them."""
        return self._account.cost(owner)

    def run(self, walk: Walk[T]) -> T:
        """Run one walk to its end.

        Raises:
            AttentionNotHooked: the denoiser has no attention that could be controlled.
            Cancelled: the caller asked to stop.
            DoesNotFit: not even the smallest part of the walk's next evaluation fits in memory.
            BackendUnavailable: the engine was closed.
        """
        under_way = WalkUnderWay(walk, self._account, self._terms)
        self._engine.submit(under_way)
        result: T = under_way.ended.result()
        return result
