"""A forward pass whose rows are remembered in the store under the digest of all their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.contract.base import Outcome
from faultline_core.errors import ArtifactCorrupt, ArtifactMissing, BadBackendOutput
from faultline_services.batching.outcomes import settle

Floats = npt.NDArray[np.float32]
Arrays = dict[str, Floats]
Input = TypeVar("Input")


class PassResult(NamedTuple):
    """One outcome an item, and how many items had to be computed."""

    outcomes: list[Outcome[Arrays]]
    computed: int


@dataclass(frozen=True)
class _Wanted(Generic[Input]):
    key: str
    known: Arrays | None
    input: Input | None


class CachedForward(Generic[Input]):
    """Computes named float32 arrays of items: each distinct item once, and never again with equal inputs.

    ``read`` turns an item into what ``forward`` takes in batches; ``inputs`` names all else that the
    arrays depend on. Arrays that are not finite are that item's problem and are not remembered.
    """

    def __init__(
        self,
        store: BlobStore,
        kind: str,
        *,
        read: Callable[[str], Input],
        forward: Callable[[list[Input]], Sequence[Arrays]],
        inputs: Mapping[str, object],
        batch: int,
    ) -> None:
        self._store, self._kind, self._inputs, self._batch = store, kind, dict(inputs), batch
        self._read, self._forward = read, forward

    def __call__(self, items: Sequence[str]) -> PassResult:
        """Return the arrays of each item, in order."""
        computed = 0

        def run(wanted: list[_Wanted[Input]]) -> list[Arrays]:
            nonlocal computed
            missing = [one.input for one in wanted if one.known is None and one.input is not None]
            made = iter(self._forward(missing) if missing else ())
            computed += len(missing)
            return [next(made) if one.known is None else one.known for one in wanted]

        # A source image stands in a call once for each of its edits.
        distinct = list(dict.fromkeys(items))
        outcomes = settle(distinct, prepare=self._prepare, run=run, finish=self._finish, batch=self._batch)
        found = dict(zip(distinct, outcomes, strict=True))
        return PassResult([found[item] for item in items], computed)

    def _prepare(self, item: str) -> _Wanted[Input]:
        key = cache_key(item=item, **self._inputs)
        known = self._recall(key)
        return _Wanted(key, known, None if known is not None else self._read(item))

    def _finish(self, wanted: _Wanted[Input], arrays: Arrays) -> Arrays:
        if wanted.known is None:
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise BadBackendOutput("the model returned numbers that are not finite")
            self._store.remember(self._kind, wanted.key, self._store.put(save(arrays)))
        return arrays

    def _recall(self, key: str) -> Arrays | None:
        ref = self._store.recall(self._kind, key)
        try:
            return None if ref is None else dict(load(self._store.get(ref)))
        # A cached value that was evicted or damaged costs one more pass, not the answer.
        except (ArtifactCorrupt, ArtifactMissing, SafetensorError):
            return None
