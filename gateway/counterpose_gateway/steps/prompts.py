"""The prompt of a class's image: with the slot for its token, or with its name in it."""

from __future__ import annotations

from counterpose_core.text.class_prompts import CLASS_SLOT, fill
from counterpose_core.types import BlobRef


def class_prompt(prompt: str, class_name: str, token: BlobRef | None) -> str:
    """Return ``prompt`` with the slot for ``token``, or with the plain class name without a token."""
    return fill(prompt, CLASS_SLOT, token=True) if token is not None else fill(prompt, class_name)
