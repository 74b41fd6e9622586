"""Folders and archives of images: which of their files are images, and which are the computer's own."""

from __future__ import annotations

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp"})
"""Endings of the three formats that are decoded."""

_OF_SYSTEMS = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN"})


def is_hidden(name: str) -> bool:
    """Whether a file or folder is none of the user's: ``.ipynb_checkpoints``, ``._1.png``, ``__MACOSX``."""
    return name in _OF_SYSTEMS or (name.startswith(".") and name not in (".", ".."))
