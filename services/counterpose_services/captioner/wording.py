"""The words before a caption: what it goes on from, by the image's label."""

from __future__ import annotations

from counterpose_core.suite import CaptionerSuite
from counterpose_core.text.interventions import agreeing_article

_LABEL_SLOT = "{label}"


def prefix_for(suite: CaptionerSuite, label: str | None) -> str:
    """Return the suite's words before a caption; those with a label have an article that fits it."""
    if label is None:
        return suite.prefix
    before, slot, after = suite.labelled_prefix.partition(_LABEL_SLOT)
    return f"{agreeing_article(before, label)}{label}{after}" if slot else before


def joined(prefix: str, text: str) -> str:
    """Return the whole caption."""
    return f"{prefix} {text}".strip()
