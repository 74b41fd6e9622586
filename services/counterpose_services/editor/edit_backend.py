"""What the editor's service asks of a backend: a way of making edits, with the capabilities it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from counterpose_core.contract.editor import (
    EditRequest,
    EditResponse,
    GenerateRequest,
    GenerateResponse,
    ReconstructRequest,
    ReconstructResponse,
)
from counterpose_core.contract.editor_backends import CAPABILITIES, Capabilities, EditorBackend
from counterpose_core.contract.tokens import LearnTokensRequest, LearnTokensResponse
from counterpose_core.errors import InvalidRequest
from counterpose_services.serving.engine_protocols import Engine

Cancelled = Callable[[], bool]
"""True once the caller has gone."""


class EditBackend(Engine, Protocol):
    """Makes the edits of the presets of its kind; a class derives from it and overrides what it can do.

    What a backend does not declare is refused by name. Every edit of a caption to itself must be possible: it
    is the control of the others, where the backend does not reconstruct. Each method polls ``cancelled``, and
    ends with Cancelled where it is true.
    """

    kind: EditorBackend

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return CAPABILITIES[self.kind]

    def rows(self) -> tuple[int, int]:
        """Return how many rows a network's calls had so far, and how many they could have had."""
        return 0, 0

    def edit(self, request: EditRequest, *, cancelled: Cancelled) -> EditResponse:
        """Edit each image at each strength that is asked for."""

    def reconstruct(self, request: ReconstructRequest, *, cancelled: Cancelled) -> ReconstructResponse:
        """Return each image with nothing changed; needs ``reconstruct``."""
        raise self._unable("reconstruct")

    def generate(self, request: GenerateRequest, *, cancelled: Cancelled) -> GenerateResponse:
        """Generate an image for each prompt; needs ``draw``."""
        raise self._unable("draw")

    def learn_tokens(self, request: LearnTokensRequest, *, cancelled: Cancelled) -> LearnTokensResponse:
        """Learn a word for each class; needs ``tokens``."""
        raise self._unable("tokens")

    def _unable(self, ability: str) -> InvalidRequest:
        return InvalidRequest(
            f"the editor's backend {self.kind!r} lacks the capability {ability!r}; choose a suite whose "
            "editor has it"
        )
