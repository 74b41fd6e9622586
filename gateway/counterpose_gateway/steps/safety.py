"""Images that the editor's safety checker flags: filtered and counted, and shown to nobody."""

from __future__ import annotations

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.editor import GeneratedImage, ImageSafety
from counterpose_core.errors import PolicyRefused

SAFETY = "safety"
"""The reason of a filtered item."""


def flagged(safety: ImageSafety | None) -> str | None:
    """Return why an image is flagged, or None if it is not, or nothing checks it."""
    if safety is None or not safety.flagged:
        return None
    return f"the safety checker flags the image: {safety.score:.3f} above its threshold"


def allowed(outcome: Outcome[GeneratedImage]) -> GeneratedImage:
    """Return an image that is no item's own.

    Raises:
        PolicyRefused: the safety checker flags it.
        CounterposeError: it was not made.
    """
    made = outcome.unwrap()
    if (why := flagged(made.safety)) is not None:
        raise PolicyRefused(f"{why}; ask for another prompt or seed")
    return made
