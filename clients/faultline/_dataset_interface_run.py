"""A dataset interface taken by its id: as every run, and it shows its classes changed like this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from faultline._calls import Call, idempotency_headers, reading
from faultline._generated import AsyncGeneratedPictures, GeneratedPictures
from faultline._run_calls import RunCalls
from faultline._runs import AsyncRunHandle, RunHandle
from faultline_core.contract.dataset_interfaces import (
    DatasetInterfaceSummary,
    Pictures,
    PicturesCreate,
    TokenItem,
)

G = TypeVar("G")

DATASET_INTERFACES = RunCalls("dataset-interface", TokenItem, DatasetInterfaceSummary)
GENERATE_TIMEOUT_S = 300.0
"""64 pictures of a published model take a minute on one accelerator, and others may be before them."""


class _Generating(ABC, Generic[G]):
    """How pictures are asked for; ``G`` is the pictures, or a coroutine that gives them."""

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
        """Make ``n`` pictures (1 to 64) of a class under a shift, at once.

        ``shift`` is words ("in the snow"), a name of the catalogue, or a whole prompt with ``<class>``;
        None leaves the class as it is. Picture i of a seed starts from the same noise under every shift.
        ``by_name`` takes the class's plain name in place of its token; ``steps``, ``guidance`` and
        ``scheduler`` are the suite's unless given.

        Raises:
            InvalidRequest: there is no such class, or no token of it yet.
            PromptTooLong: the shift does not fit the text encoder.
        """
        body = PicturesCreate(
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
    def _generated(self, call: Call[Pictures]) -> G: ...


class DatasetInterface(RunHandle[TokenItem, DatasetInterfaceSummary], _Generating[GeneratedPictures]):
    """A dataset interface, followed by blocking calls."""

    _calls = DATASET_INTERFACES

    def _generated(self, call: Call[Pictures]) -> GeneratedPictures:
        return GeneratedPictures.of(self._sender, self._sender.send(call))


class AsyncDatasetInterface(
    AsyncRunHandle[TokenItem, DatasetInterfaceSummary],
    _Generating[Coroutine[Any, Any, AsyncGeneratedPictures]],
):
    """A dataset interface, followed by awaitable calls."""

    _calls = DATASET_INTERFACES

    async def _generated(self, call: Call[Pictures]) -> AsyncGeneratedPictures:
        return AsyncGeneratedPictures.of(self._sender, await self._sender.send(call))


def generate_call(run_id: str, body: PicturesCreate) -> Call[Pictures]:
    """``POST /v1/dataset-interfaces/{id}:generate``; equal bodies make equal pictures: safe to repeat."""
    return Call(
        method="POST",
        path=DATASET_INTERFACES.path(run_id, ":generate"),
        body=body,
        parse=reading(Pictures),
        headers=idempotency_headers(None),
        timeout=GENERATE_TIMEOUT_S,
    )
