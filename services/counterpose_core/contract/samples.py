"""What an image that was generated from a prompt is recorded with: its likeness and every answer to it."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.runs import Provenance
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.types import BlobRef


class SampleResult(Provenance):
    """An image of a label, with every classifier's answer and whether it is a failure."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    prompt: str | None = None
    """Its prompt, or null for a caption."""
    seed: int | None = None
    """Seed of its starting noise, or null for a caption."""
    caption: str | None = None
    """Its caption, or null for a sample."""
    served: ServedImage | None = Field(default=None, exclude_if=lambda served: served is None)
    """How a server of others made the image; absent where none did."""
    object_similarity: float | None = None
    """CLIP's cosine with the caption of the label, or null if it was not measured."""
    predictions: dict[str, Scored] = {}
    """Predictions for the image, by classifier."""
    failed: dict[str, bool] = {}
    """Whether each classifier that answered fails by the run's criterion."""
    unanswered: dict[str, str] = {}
    """Why a classifier has no prediction for the image, by classifier; it is no failure."""
