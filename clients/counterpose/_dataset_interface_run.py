"""A dataset interface by its id: a run that generates images of its classes under shifts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._images import AsyncGeneratedImages, GeneratedImages
from counterpose._run_calls import RunCalls
from counterpose._runs import AsyncRunHandle, RunHandle
from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceSummary,
    Images,
    ImagesCreate,
    TokenItem,
)

G = TypeVar("G")

DATASET_INTERFACES = RunCalls("dataset-interface", TokenItem, DatasetInterfaceSummary)
GENERATE_TIMEOUT_S = 300.0
"""64 images of a published model take a minute on one accelerator, and others may be queued first."""


class _Generating(ABC, Generic[G]):
    """How images are requested; ``G`` is the images, or a coroutine of them."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The interface's id."""

    def generate(
        self,
        *,
        class_name: str,
        shift: str | None = None,
        n: int = 8,
        seed: int = 0,
        by_name: bool = False,
        steps: int | None = None,
        guidance: float | None = None,
        scheduler: str | None = None,
    ) -> G:
        """Generate images of a class under a shift, in one call.

        Image i of a seed starts from the same noise under every shift.

        Args:
            class_name: one of the interface's classes.
            shift: words ("in the snow"), a name of the catalogue, or a prompt with ``<class>``; None for
                no shift.
            n: number of images, 1 to 64.
            seed: equal seeds give equal images.
            by_name: use the class's plain name instead of its token.
            steps: denoising steps; default: the suite's.
            guidance: guidance scale; default: the suite's.
            scheduler: diffusion scheduler; default: the suite's.

        Raises:
            InvalidRequest: there is no such class, or it has no token yet.
            PromptTooLong: the shift does not fit the text encoder.
        """
        body = ImagesCreate(
            class_name=class_name,
            shift=shift,
            n=n,
            seed=seed,
            by_name=by_name,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
        )
        return self._generated(generate_call(self.id, body))

    @abstractmethod
    def _generated(self, call: Call[Images]) -> G: ...


class DatasetInterface(RunHandle[TokenItem, DatasetInterfaceSummary], _Generating[GeneratedImages]):
    """A dataset interface, followed by blocking calls."""

    _calls = DATASET_INTERFACES

    def _generated(self, call: Call[Images]) -> GeneratedImages:
        return GeneratedImages.of(self._sender, self._sender.send(call))


class AsyncDatasetInterface(
    AsyncRunHandle[TokenItem, DatasetInterfaceSummary],
    _Generating[Coroutine[Any, Any, AsyncGeneratedImages]],
):
    """A dataset interface, followed by awaitable calls."""

    _calls = DATASET_INTERFACES

    async def _generated(self, call: Call[Images]) -> AsyncGeneratedImages:
        return AsyncGeneratedImages.of(self._sender, await self._sender.send(call))


def generate_call(run_id: str, body: ImagesCreate) -> Call[Images]:
    """``POST /v1/dataset-interfaces/{id}:generate``; equal requests give equal images: safe to retry."""
    return Call(
        method="POST",
        path=DATASET_INTERFACES.path(run_id, ":generate"),
        body=body,
        parse=reading(Images),
        headers=idempotency_headers(None),
        timeout=GENERATE_TIMEOUT_S,
    )
