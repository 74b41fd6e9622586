"""Where the commands of a method run: by the gateway's own workers, or by those that a Ray cluster starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from counterpose._placed_client import PlacedClient
from counterpose._sync.client import Client
from counterpose_core.contract.jobs import Job


@dataclass
class Placement:
    """A cluster and how many workers it shall start; ``client`` is the one that submitted the job."""

    cluster: str
    workers: int
    client: PlacedClient | None = None

    def look(self) -> None:
        """Look at the job; raises `CounterposeError` if it has failed."""
        if self.client is not None:
            self.client.look()


_placement: ContextVar[Placement | None] = ContextVar("placement", default=None)


def current() -> Placement | None:
    """Return where runs are placed, or None for the gateway's own workers."""
    return _placement.get()


@contextmanager
def placed(cluster: str, workers: int) -> Iterator[None]:
    """Place the runs that the block creates."""
    token = _placement.set(Placement(cluster, workers))
    try:
        yield
    finally:
        _placement.reset(token)


def client_of(url: str | None, tell: Callable[[str], None]) -> Client:
    """Return the client of a command; ``tell`` is given what a person should know of a job."""
    placement = current()
    if placement is None:
        return Client(url)
    last = ""

    def on_job(job: Job) -> None:
        nonlocal last
        waiting = "" if job.run else f": {job.message or 'its dataset is imported first'}"
        said = f"job {job.id} on {job.cluster}, {job.workers} workers{waiting}"
        if said != last:
            tell(said)
        last = said

    placement.client = PlacedClient(url, cluster=placement.cluster, workers=placement.workers, on_job=on_job)
    return placement.client
