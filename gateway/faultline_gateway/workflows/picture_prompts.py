"""The prompt of a class's picture: with the slot for its token, or with its name in it."""

from __future__ import annotations

from faultline_core.class_prompts import fill
from faultline_core.class_slot import CLASS_SLOT
from faultline_core.types import BlobRef


def prompt_of(prompt: str, class_name: str, token: BlobRef | None) -> str:
    """Return ``prompt`` as it is sent along with ``token``, or by the plain name where there is none."""
    return fill(prompt, CLASS_SLOT, token=True) if token is not None else fill(prompt, class_name)
