"""One call of the engine: the objects that its steps share, and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from faultline_core.blobs import BlobStore
from faultline_core.editing.denoiser import Cancellation, CountingDenoiser
from faultline_core.errors import ResourceExhausted
from faultline_core.types import Cost
from faultline_services.batching.batch_size import BatchSizers, is_out_of_memory

if TYPE_CHECKING:
    # Not at run time, because the tests of these steps need no model library.
    from faultline_services.editor.pipeline import Pipeline


@dataclass(frozen=True)
class EngineCall:
    """The pipeline, the store and the batch sizes, which outlive a call, and the call's own counters.

    ``denoiser`` counts the call's evaluations, including those of batches that did not fit; ``cancelled`` is
    polled between diffusion steps; ``started`` is the start of the call in seconds of the process's clock.
    """

    pipeline: Pipeline
    store: BlobStore
    sizers: BatchSizers
    denoiser: CountingDenoiser
    cancelled: Cancellation
    started: float

    @classmethod
    def begin(
        cls, pipeline: Pipeline, store: BlobStore, sizers: BatchSizers, cancelled: Cancellation
    ) -> EngineCall:
        """Start a call: its clock runs, and its counters are zero.

        Args:
            pipeline: the loaded networks.
            store: where images are read and written.
            sizers: the batch sizes found so far, which the call updates.
            cancelled: True once the caller has gone.
        """
        denoiser = CountingDenoiser(pipeline.denoiser, pipeline.flops.evaluation)
        return cls(pipeline, store, sizers, denoiser, cancelled, perf_counter())

    def cost(self, spent: Cost) -> Cost:
        """Return the cost of the call so far: its evaluations, its time, and ``spent`` for other work."""
        return self.denoiser.cost + spent + Cost(seconds=perf_counter() - self.started)


def with_share_of_time(cost: Cost, whole: Cost, items: int) -> Cost:
    """Return an item's cost with its share of the wall time, by evaluations if there were any."""
    # A call whose inversions were all cached may have none.
    share = cost.unet_evaluations / whole.unet_evaluations if whole.unet_evaluations else 1 / items
    return cost.model_copy(update={"seconds": whole.seconds * share})


@contextmanager
def shortage_named() -> Iterator[None]:
    """Raise ResourceExhausted if memory runs out outside of a batch, where a smaller batch cannot help."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceExhausted(f"out of memory outside of the batches: {error}") from error
