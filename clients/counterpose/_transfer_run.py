"""A transfer by its id: a run that shows images which fool some classifiers to others."""

from __future__ import annotations

from counterpose._run_calls import RunCalls
from counterpose._runs import AsyncRunHandle, RunHandle
from counterpose_core.contract.transfers import TransferItem, TransferSummary

TRANSFERS = RunCalls("transfer", TransferItem, TransferSummary)


class Transfer(RunHandle[TransferItem, TransferSummary]):
    """A transfer, followed by blocking calls."""

    _calls = TRANSFERS


class AsyncTransfer(AsyncRunHandle[TransferItem, TransferSummary]):
    """A transfer, followed by awaitable calls."""

    _calls = TRANSFERS
