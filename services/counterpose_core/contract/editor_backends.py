"""The kinds of editors, and what each can do: data that suites, services and methods read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from counterpose_core.field_descriptions import Described

EditorBackend = Literal["prompt-to-prompt", "images-api"]
"""How an editor makes its images; a preset names the one that its settings are for."""


Ability = Literal[
    "reconstruct", "captions", "instruction", "transform", "mask", "levels", "tokens", "draw", "seeded"
]
"""The name of something that an editor can do."""


class Capabilities(Described, extra="ignore", frozen=True):
    """What an editor can do; what it does not declare, it cannot."""

    reconstruct: bool = False
    """Returns an image with nothing changed, by the path that its edits take."""
    captions: bool = False
    """Edits by a caption and the caption to match."""
    instruction: bool = False
    """Edits by a sentence that says what to change."""
    transform: bool = False
    """Edits by a named operation and its level."""
    mask: bool = False
    """Keeps everything outside a region, or inside it."""
    levels: bool = False
    """Has an ordered axis of strengths."""
    tokens: bool = False
    """Learns a word from images."""
    draw: bool = False
    """Makes images from text alone."""
    seeded: bool = False
    """Returns the same image for the same request."""

    def can(self, ability: Ability) -> bool:
        """Return whether this ability is declared."""
        return ability in self.abilities

    @property
    def abilities(self) -> set[str]:
        """The names of what is declared."""
        return {name for name, declared in self if declared}

    @classmethod
    def joined(cls, several: Iterable[Capabilities]) -> Capabilities:
        """Return what some of ``several`` can do."""
        return cls.model_validate({name: True for each in several for name in each.abilities})


CAPABILITIES: Mapping[EditorBackend, Capabilities] = MappingProxyType(
    {
        "prompt-to-prompt": Capabilities(
            reconstruct=True, captions=True, mask=True, levels=True, tokens=True, draw=True, seeded=True
        ),
        # What a server can do besides, the preset says.
        "images-api": Capabilities(instruction=True, mask=True),
    }
)
"""What each backend declares; a preset may declare more."""

OPERATIONS = Capabilities(reconstruct=True, transform=True, mask=True, levels=True, seeded=True)
"""What operations on images can do, which classifiers carry out without an editor."""
