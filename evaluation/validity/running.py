"""Runs through the SDK, which resume where they stopped: a stress test of all classifiers, and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, TypeAdapter
from tqdm import tqdm

from counterpose import Client, StressTest
from counterpose._sync.run_handle import AnyRun
from counterpose._sync.run_resource import RunResource
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestSummary
from evaluation.former_names import renamed

R = TypeVar("R", bound=AnyRun)


@dataclass(frozen=True)
class Finished:
    """The result of a stress test."""

    run_id: str
    items: list[Annotated[Item, BeforeValidator(renamed)]]


DATASET = "validity-"
"""The prefix of the names of datasets that validations upload."""

FINISHED = TypeAdapter(Finished)
SUMMARY = TypeAdapter(StressTestSummary)


def watched(run: R) -> R:
    """Follow a run with a bar until it ends.

    Raises:
        RuntimeError: it did not complete; it can be resumed.
    """
    counts = run.run.request_counts
    with tqdm(total=counts.total, initial=counts.total - counts.pending, desc="items") as bar:
        for event in () if run.ended else run.events():
            bar.update(event.request_counts.total - event.request_counts.pending - bar.n)
    if not run.run.state.startswith("completed"):
        raise RuntimeError(f"run {run.id!r} ended {run.run.state}; start again to resume it")
    return run


def take_up(runs: RunResource[R], run_id: str) -> R:
    """Return a run started earlier; a failed or cancelled one is resumed."""
    run = runs.get(run_id)
    return run.resume() if run.run.state in ("failed", "cancelled") else run


def rest_others(runs: RunResource[Any], run_id: str) -> None:
    """Cancel runs of a kind that earlier validations left open: they would share the machine.

    Their finished items are kept, and the validation that started one resumes it.
    """
    for other in runs.list():
        waits = other.state in ("queued", "in_progress")
        if waits and other.id != run_id and other.run.dataset.startswith(DATASET):
            other.cancel()


def start(
    client: Client, dataset: str, specs: Sequence[str], *, preset: str, edits: int, seed: int, key: str
) -> StressTest:
    """Start a run; a repeated call under one ``key`` starts it once."""
    return client.stress_tests.create(
        dataset=dataset,
        classifiers=specs,
        max_edits_per_image=edits,
        preset=preset,
        # One stage over every image, as in the figures on record.
        confirm=False,
        seed=seed,
        idempotency_key=key,
    )


def collected(run: StressTest) -> Finished:
    """Collect all items by cursor."""
    return Finished(run.id, list(tqdm(run.items(), total=run.run.request_counts.total, desc="collect")))
