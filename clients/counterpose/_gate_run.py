"""A gate by its id: a run that compares candidates with the incumbent on frozen counterfactuals."""

from __future__ import annotations

from counterpose._run_calls import RunCalls
from counterpose._runs import AsyncRunHandle, RunHandle
from counterpose_core.contract.gates import GateItem, GateSummary

GATES = RunCalls("gate", GateItem, GateSummary)


class Gate(RunHandle[GateItem, GateSummary]):
    """A gate, followed by blocking calls."""

    _calls = GATES


class AsyncGate(AsyncRunHandle[GateItem, GateSummary]):
    """A gate, followed by awaitable calls."""

    _calls = GATES
