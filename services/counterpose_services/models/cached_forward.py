"""A forward pass whose results are cached in the store under the digest of all their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from counterpose_core.blobs import BlobStore, cache_key, is_digest
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.recipes import is_recipe
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, BadBackendOutput
from counterpose_services.batching.outcomes import settle

Floats = npt.NDArray[np.float32]
Arrays = dict[str, Floats]
Input = TypeVar("Input")


class PassResult(NamedTuple):
    """One outcome per item, the number of items that were computed, and digests of images made of recipes."""

    outcomes: list[Outcome[Arrays]]
    computed: int
    digests: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class _Wanted(Generic[Input]):
    key: str
    of: str
    known: Arrays | None
    input: Input | None


class CachedForward(Generic[Input]):
    """Computes named float32 arrays for items: each distinct item once, and not again for equal inputs.

    ``read`` turns an item into the input of ``forward``, which takes batches; ``inputs`` names all other
    inputs of the arrays. An item whose arrays are not finite fails alone and is not cached.
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

        # A call contains a source image once for each of its edits.
        distinct = list(dict.fromkeys(items))
        outcomes = settle(distinct, prepare=self._prepare, run=run, finish=self._finish, batch=self._batch)
        found = dict(zip(distinct, outcomes, strict=True))
        return PassResult([found[item] for item in items], computed)

    def _prepare(self, item: str) -> _Wanted[Input]:
        if is_recipe(item):
            # Twenty a photograph, each made and answered once: keeping them would cost more than it saves.
            return _Wanted("", "", None, self._read(item))
        # An image is named by its digest; what is made of it goes with it. Other items are texts.
        key, of = cache_key(item=item, **self._inputs), item if is_digest(item) else ""
        known = self._recall(key, of)
        return _Wanted(key, of, known, None if known is not None else self._read(item))

    def _finish(self, wanted: _Wanted[Input], arrays: Arrays) -> Arrays:
        if wanted.known is None:
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise BadBackendOutput("the model returned numbers that are not finite")
            if wanted.key:
                self._store.remember(self._kind, wanted.key, self._store.put(save(arrays)), of=wanted.of)
        return arrays

    def _recall(self, key: str, of: str) -> Arrays | None:
        ref = self._store.recall(self._kind, key, of=of)
        try:
            return None if ref is None else dict(load(self._store.get(ref)))
        # If a cached value was evicted or damaged, it is computed again.
        except (ArtifactCorrupt, ArtifactMissing, SafetensorError):
            return None
