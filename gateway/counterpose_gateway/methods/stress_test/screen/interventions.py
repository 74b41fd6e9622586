"""Edits by chosen words: the user's interventions (LANCE, fig. 11) and those that a run confirms."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose_core.contract.confirmation import Instruction, Wording
from counterpose_core.contract.interventions import Intervention
from counterpose_core.stress_test.filters import names_label
from counterpose_core.text.interventions import intervene
from counterpose_gateway.methods.stress_test.screen.proposals import LONGEST_CAPTION, Proposal
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.drops import Drops

NOT_APPLICABLE = "not-applicable"
"""The reason of an item whose caption does not contain the words to change."""


def apply_interventions(subject: Subject, items: Iterable[LeasedItem]) -> tuple[list[KeptEdit], Drops]:
    """Apply the intervention of each item to the caption.

    Its words are the user's choice, so no filter compares them: only an edit that names the class is
    refused, since it would change the image's true label.
    """
    kept, drops, caption = list[KeptEdit](), Drops(), subject.caption
    for item in items:
        chosen = subject.config.request.interventions[item.slot]
        edited = intervene(caption, chosen.removed, chosen.added)
        if edited is None or len(edited) > LONGEST_CAPTION:
            drops.filtered(item, NOT_APPLICABLE, _why_not(caption, chosen, edited))
            continue
        proposal = Proposal.of(caption, edited)
        if names_label(proposal.removed, proposal.added, subject.label):
            drops.filtered(item, "label-in-edit", f"{chosen.in_words()} names {subject.label!r}")
            continue
        kept.append(KeptEdit(item, proposal))
    return kept, drops


def reworded(caption: str, wording: Wording, label: str) -> Proposal | None:
    """Return the edit of a caption by a wording, or None if it does not apply or names the class."""
    edited = intervene(caption, wording.removed, wording.added)
    if edited is None or len(edited) > LONGEST_CAPTION:
        return None
    proposal = Proposal.of(caption, edited)
    unusable = proposal.words.is_empty or names_label(proposal.removed, proposal.added, label)
    return None if unusable else proposal


def reworded_twice(
    caption: str, wording: Wording | None, second: Wording | None, label: str
) -> Proposal | None:
    """Return the edit of a caption by a wording and, if there is one, a second; None as `reworded` does."""
    proposal = None if wording is None else reworded(caption, wording, label)
    if proposal is None or second is None:
        return proposal
    both = reworded(proposal.edited_caption, second, label)
    return None if both is None else Proposal.of(caption, both.edited_caption)


def apply_instructions(subject: Subject, items: Iterable[LeasedItem]) -> tuple[list[KeptEdit], Drops]:
    """Apply to the caption the wording of each item of a confirmation."""
    kept, drops = list[KeptEdit](), Drops()
    for item in items:
        asked = Instruction.model_validate(item.instruction)
        proposal = reworded_twice(subject.caption, asked.wording, asked.second_wording, subject.label)
        if proposal is None:
            drops.filtered(item, NOT_APPLICABLE, "the words do not apply to the caption")
        else:
            kept.append(KeptEdit(item, proposal))
    return kept, drops


def _why_not(caption: str, chosen: Intervention, edited: str | None) -> str:
    if edited is not None:
        return f"the caption would be longer than {LONGEST_CAPTION} characters"
    if intervene(caption, chosen.removed, "something") is not None:
        return f"the caption would be empty without {chosen.removed!r}"
    return f"the caption does not contain {chosen.removed!r}"
