"""The states of everything that a report judges: a closed set of words, each with an icon."""

from __future__ import annotations

BADGES = {
    "breaks": "✗ breaks",
    "suspected": "? suspected",
    "test-unfit": "⚠ test unfit",
    "cannot-tell": "– can't tell",
    "holds": "✓ holds",
    "hint": "· hint",
}
"""State → its icon and word; a state is never told by colour alone."""
