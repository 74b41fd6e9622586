"""Circuit breakers: calls to a service that keeps failing pause for a while, then one call tries it.

Written here because the libraries for it are unmaintained and it takes fifty lines.
"""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.services import CircuitState

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
