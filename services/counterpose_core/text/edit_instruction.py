"""The sentence that asks an editor for what two captions differ by: fixed templates, told apart by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Literal

from counterpose_core.text.caption_diff import difference

TemplateName = Literal["both-captions"]
"""The name of a template. A template is never changed: another wording gets another name."""

UNCHANGED_RULE = "Keep everything else exactly as it is: the same place, size, pose, colours and framing."


@dataclass(frozen=True)
class InstructionTemplate:
    """What is said where words are replaced, added, removed, changed in several places, or not at all.

    Each text may hold ``{caption}``, ``{edited}``, ``{removed}`` and ``{added}``.
    """

    replaced: str
    added: str
    removed: str
    several: str
    unchanged: str

    def instruction(self, caption: str, edited_caption: str) -> str:
        """Return the instruction that leads from one caption to the other.

        Captions that differ in no word, whatever their case and punctuation, ask for no change.
        """
        change = difference(caption, edited_caption)
        if change.is_empty:
            form = self.unchanged
        elif change.places > 1:
            form = self.several
        elif change.removed and change.added:
            form = self.replaced
        else:
            form = self.added if change.added else self.removed
        return form.format(
            caption=caption, edited=edited_caption, removed=change.removed_text, added=change.added_text
        )

    @property
    def texts(self) -> dict[str, str]:
        """All its texts by their case: what a key of what was made by it must hold."""
        return asdict(self)


# Both captions are in the text: one word alone, such as "red", may be true of several things in an image.
_SHOWN = 'The image shows "{caption}". Change it so that it shows "{edited}"'

TEMPLATES: Mapping[TemplateName, InstructionTemplate] = MappingProxyType(
    {
        "both-captions": InstructionTemplate(
            replaced=f'{_SHOWN}: replace "{{removed}}" by "{{added}}". {UNCHANGED_RULE}',
            added=f'{_SHOWN}: add "{{added}}". {UNCHANGED_RULE}',
            removed=f'{_SHOWN}: remove "{{removed}}". {UNCHANGED_RULE}',
            several=f"{_SHOWN}. {UNCHANGED_RULE}",
            unchanged="Return the image unchanged. Change nothing in it.",
        )
    }
)
"""The templates by name."""
