"""Circuit breakers: calls to a service that keeps failing pause for a while, then one call tries it.

Written here because the libraries for it are unmaintained and it takes fifty lines.

How many calls a process makes to one service at once.

A call that waits in a service's queue spends its deadline there; here it waits without one.

What a process counts of its calls to the services: how many, how long they took, and what came of them.

A series is named by words with spaces between them, such as ``calls editor ok``, which is how the ledger
keeps it; `http.metrics` makes Prometheus' series of them.

For how long a run will go on, which every call of its work tells the service.

A service sees the calls that it holds. It does not see the items that wait in the ledger, and so neither
whether a replica is worth its start nor whether a gap between two calls is the end of the work.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from counterpose_core.contract.runs import RequestCounts
from counterpose_core.contract.services import CircuitState
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import CounterposeError

FAILURES_TO_OPEN = 5
REST_SECONDS = 5.0
"""A process then calls a dead service twelve times a minute at most, whatever its load. It is short
compared with the 60 s and more in which a replica loads its weights."""


class Circuit:
    """Counts one service's failures in a row; ``clock`` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._rests_until = 0.0

    @property
    def state(self) -> CircuitState:
        """Closed: calls pass. Open: no call passes. Half-open: the next call is the trial."""
        if self._failures < FAILURES_TO_OPEN:
            return "closed"
        return "open" if self._clock() < self._rests_until else "half-open"

    def admit(self) -> float:
        """Let a call through (0.0), or return the seconds to wait before asking again."""
        match self.state:
            case "closed":
                return 0.0
            case "half-open":
                # The trial begins the next rest instead of setting a flag: a trial that is cancelled or hangs
                # until its deadline then cannot block all later calls.
                self._rests_until = self._clock() + REST_SECONDS
                return 0.0
            case "open":
                return self._rests_until - self._clock()

    def answered(self) -> None:
        """Note that the service answered; even a refusal shows that it is alive."""
        self._failures = 0

    def failed(self) -> None:
        """Note that the service was unreachable or too slow."""
        self._failures += 1
        # Calls that were in progress when the circuit opened fail later, and prolong the rest.
        self._rests_until = self._clock() + REST_SECONDS


SLOW = 0.5
"""A call that takes more than this share of its deadline waited behind too many others."""
FAST = 0.125
"""After a call that takes less than this share of its deadline, one more may run beside it."""


class CallLimit:
    """Lets as many calls to one service run as it asks for, and fewer while they come near their deadline.

    ``clock`` returns monotonic seconds. Without a number from the service, every call may run.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: int | None = None
        self._changed = clock()
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.calls: int | None = None
        """Most calls at once now, or None for any number."""

    def tell(self, calls: int | None) -> None:
        """Take the number of calls that keep the service busy; None if it does not say."""
        if calls == self._told:
            return
        self._told = self.calls = calls
        self._changed = self._clock()
        self._admit()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place among the calls that run, first come first served, and hold it."""
        # A call that comes while others wait goes behind them.
        if self._waiting or self._full():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Cancelled after its turn had come: the place goes to the next.
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self._running += 1
        try:
            yield
        finally:
            self._leave()

    def took(self, seconds: float, deadline: float) -> None:
        """Note how long a call took: a slow one halves the number, a fast one raises it by one.

        Calls that began before the number changed say nothing about it.
        """
        now = self._clock()
        if self.calls is None or self._told is None or now - seconds < self._changed:
            return
        if seconds > SLOW * deadline:
            wanted = max(1, self.calls // 2)
        elif seconds < FAST * deadline:
            wanted = min(self._told, self.calls + 1)
        else:
            return
        if wanted != self.calls:
            self.calls, self._changed = wanted, now
            self._admit()

    def _full(self) -> bool:
        return self.calls is not None and self._running >= self.calls

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._full():
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)


CALLS, SECONDS, BUCKET = "calls", "seconds", "bucket"
"""The first words of series: calls by service and outcome; their seconds, and their number by duration."""
OK = "ok"
"""The outcome of a call that was answered; any other one is the code of an error."""
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper bounds in seconds; a call that took longer than all of them is in none.

A caption takes a tenth of a second and a call to the editor half a minute.
"""


class CallCounts:
    """Counts calls; ``clock`` returns monotonic seconds. One event loop uses it, and no thread beside it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._new = defaultdict[str, float](float)
        self.under_way = Counter[str]()
        """Calls under way, by service."""

    @contextmanager
    def call(self, service: str) -> Iterator[None]:
        """Count a call, which the block makes; one that is cancelled counts as ``cancelled``."""
        began, outcome = self._clock(), "cancelled"
        self.under_way[service] += 1
        try:
            yield
            outcome = OK
        except CounterposeError as error:
            outcome = error.code
            raise
        finally:
            self.under_way[service] -= 1
            self._count(service, outcome, self._clock() - began)

    def taken(self) -> dict[str, float]:
        """Return what was counted since the last time, and begin anew."""
        counts = dict(self._new)
        self._new.clear()
        return counts

    def put_back(self, counts: Mapping[str, float]) -> None:
        """Take counts again that could not be told."""
        for series, amount in counts.items():
            self._new[series] += amount

    def _count(self, service: str, outcome: str, seconds: float) -> None:
        self._new[f"{CALLS} {service} {outcome}"] += 1
        place = bisect.bisect_left(BUCKETS, seconds)
        if place < len(BUCKETS):
            self._new[f"{BUCKET} {service} {BUCKETS[place]:g}"] += 1
        self._new[f"{SECONDS} {service}"] += seconds


REMAINING: ContextVar[float | None] = ContextVar("remaining", default=None)
"""Seconds for which the run that this task works on will go on; None if nobody knows."""
RUN: ContextVar[str | None] = ContextVar("run", default=None)
"""The id of the run that this task works on."""


class Accounts(Protocol):
    """Keeps what runs ask servers of others for; `worker.spending.LedgerAccounts` does, in the ledger.

    call = await accounts.reserve(run, "editor", Spent(calls=1, images=1))
    await accounts.settle(run, call, Spent(calls=1, images=1))
    """

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Take the most for spent, and return the id of the call; raises BudgetSpent without room."""

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what the call did cost in its place."""


PLANNING: ContextVar[Accounts | None] = ContextVar("planning", default=None)
"""The account of the run that this task plans."""


LOOK_SECONDS = 5.0
"""How often the counts of a run are read."""
WINDOW_SECONDS = 120.0
"""The speed is that of about so long ago until now: replicas come and go."""
RUNS = 1000
"""Runs whose speed is remembered; one that is forgotten is measured again."""


class Seen(NamedTuple):
    """How many items had ended at a moment of a monotonic clock."""

    at: float
    ended: int


class _Speed:
    def __init__(self) -> None:
        self.looks: list[Seen] = []
        self.seconds: float | None = None

    def look(self, now: float, counts: RequestCounts) -> None:
        ended = counts.total - counts.pending
        # One look that is older than the window stays, so that the speed always has two ends.
        while len(self.looks) > 1 and self.looks[1].at <= now - WINDOW_SECONDS:
            del self.looks[0]
        self.looks.append(Seen(now, ended))
        first = self.looks[0]
        done = ended - first.ended
        self.seconds = None if done <= 0 else counts.pending * (now - first.at) / done


class RemainingTimes:
    """The remaining time of each run at its speed of the last two minutes.

    ``counts`` reads a run's counts, or None if they cannot be had now.
    """

    def __init__(
        self, counts: Callable[[str], RequestCounts | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counts, self._clock = counts, clock
        self._speeds: OrderedDict[str, _Speed] = OrderedDict()

    def of(self, run_id: str) -> float | None:
        """Return the seconds for which a run will go on; None until some of its items have ended."""
        speed = self._speeds.setdefault(run_id, _Speed())
        self._speeds.move_to_end(run_id)
        while len(self._speeds) > RUNS:
            self._speeds.popitem(last=False)
        now = self._clock()
        if not speed.looks or now - speed.looks[-1].at >= LOOK_SECONDS:
            counts = self._counts(run_id)
            if counts is not None:
                speed.look(now, counts)
        return speed.seconds
