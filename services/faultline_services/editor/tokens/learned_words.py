"""The tokens of a request for images: each bundle read once, its vectors put into the prompts' slots."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import GenerateItem
from faultline_core.types import BlobRef
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.tokens.bundle import unpack_bundle


class LearnedWords:
    """Reads prompts with and without tokens; a bundle that does not fit concerns its own items alone."""

    def __init__(self, pipeline: Pipeline, store: BlobStore) -> None:
        self._pipeline, self._store = pipeline, store
        self._vectors: dict[BlobRef, Tensor] = {}

    def check(self, item: GenerateItem) -> None:
        """Refuse an image that cannot be asked for.

        Raises:
            ArtifactMissing: there is no such bundle.
            ModelFormatRefused: the bytes are none.
            InvalidRequest: it is of other weights, or prompt and token do not belong together.
            PromptTooLong: the prompt does not fit with its vectors.
        """
        vectors = 0 if item.token is None else len(self._read(item.token))
        self._pipeline.prompts.tokenize(item.prompt, vectors)

    def encode(self, items: Sequence[GenerateItem]) -> Tensor:
        """Embed prompts that were checked into (N, L, D); those without a token as ever."""
        prompts = self._pipeline.prompts
        plain = [row for row, item in enumerate(items) if item.token is None]
        slotted = [(row, item.token) for row, item in enumerate(items) if item.token is not None]
        if not slotted:
            return prompts.encode([item.prompt for item in items])
        learned = prompts.encode_learned(
            [items[row].prompt for row, _ in slotted], [self._read(token) for _, token in slotted]
        )
        if not plain:
            return learned
        embedded = torch.cat([prompts.encode([items[row].prompt for row in plain]), learned])
        order = [*plain, *(row for row, _ in slotted)]
        return embedded[[order.index(row) for row in range(len(items))]]

    def _read(self, token: BlobRef) -> Tensor:
        if token not in self._vectors:
            bundle = unpack_bundle(self._store.get(token))
            bundle.require_fit(self._pipeline.identity, self._pipeline.prompts.width)
            self._vectors[token] = bundle.vectors.to(self._pipeline.null)
        return self._vectors[token]
