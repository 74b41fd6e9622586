"""The types that the ledger and the launcher exchange: a leased job and its newest attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterpose_core.types import JobState


@dataclass(frozen=True, kw_only=True)
class LeasedAttempt:
    """The newest attempt of a job, while nobody has ended it.

    ``submitted``: whether the cluster is known to have it. ``seen``: whether a worker of it has reported.
    ``quiet_s``: seconds since a worker reported last, or else since it was claimed or submitted.
    """

    number: int
    submission_id: str
    submitted: bool
    seen: bool
    quiet_s: float


@dataclass(frozen=True, kw_only=True)
class LeasedJob:
    """A job that this process looks after for some seconds: every write names ``fence``.

    ``request`` is the body that creates its run, as JSON. ``attempts`` counts those that were ever claimed,
    ``fruitless`` the newest in a row without progress. ``attempt`` is the one that goes on, or
    None. ``tenant``: whose the job is, and its run.
    """

    id: str
    cluster: str
    workers: int
    kind: str
    request: Mapping[str, Any]
    state: JobState
    run_id: str | None
    attempts: int
    fruitless: int
    fence: int
    tenant: str
    attempt: LeasedAttempt | None = None

    @property
    def dataset(self) -> str | None:
        """The dataset of the run, if its request names one."""
        return dataset_of(self.request)


def dataset_of(request: Mapping[str, Any]) -> str | None:
    """Return the dataset that a request names, or None."""
    found: str | None = request.get("dataset")
    return found


@dataclass(frozen=True, kw_only=True)
class JobNews:
    """What a worker of a job is told: its run, if it is made, and whether the worker is still needed.

    ``dataset``: the key of the run's, which may still be imported while there is no run; None if the request
    names none.
    ``workers``: how many share the services for this run.
    """

    run_id: str | None
    needed: bool
    dataset: str | None = None
    workers: int = 1
