"""One call of the engine: the objects that its steps share, and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.editing.denoiser import Cancellation
from counterpose_core.errors import ResourceExhausted
from counterpose_core.types import Cost
from counterpose_services.batching.batch_size import BatchSizers, is_out_of_memory
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.step_engine.mode import OWN_MODE, Mode
from counterpose_services.editor.step_engine.step_engine import RequestRunner, StepEngine
from counterpose_services.editor.step_engine.walk_under_way import Terms

if TYPE_CHECKING:
    # Not at run time, because the tests of these steps need no model library.
    from counterpose_services.editor.pipeline import Pipeline
    from counterpose_services.editor.safety import SafetyChecker


@dataclass(frozen=True)
class EngineCall:
    """The pipeline, the store and the batch sizes, which outlive a call, and what the call itself has done.

    ``terms`` say whose work it is, until when, and whether the caller has gone; ``started`` is the start of
    the call in seconds of the process's clock.
    """

    pipeline: Pipeline
    store: BlobStore
    sizers: BatchSizers
    steps: StepEngine
    terms: Terms
    safety: SafetyChecker | None = None
    started: float = field(default_factory=perf_counter)
    conditions: dict[CaptionedImage, Tensor] = field(default_factory=dict)
    """What an inpainting checkpoint is told of images, once they were encoded."""
    _runners: list[RequestRunner] = field(default_factory=list)

    @property
    def cancelled(self) -> Cancellation:
        """True once the caller has gone."""
        return self.terms.cancelled

    def runner(self, mode: Mode = OWN_MODE) -> RequestRunner:
        """Return what runs walks of this call in the engine that all calls share."""
        runner = self.steps.runner(replace(self.terms, mode=mode))
        self._runners.append(runner)
        return runner

    def cost(self, spent: Cost) -> Cost:
        """Return the cost of the call so far: its evaluations, its time, and ``spent`` for other work.

        The evaluations include those of batches that did not fit.
        """
        made = sum((runner.total for runner in self._runners), start=Cost())
        priced = self.pipeline.flops.evaluation.priced(made)
        return priced + spent + Cost(seconds=perf_counter() - self.started)


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
