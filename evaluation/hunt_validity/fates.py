"""What a description names, by the grammar, and what became of a planted bug."""

from __future__ import annotations

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.grammar import parse
from evaluation.validity.matching import named_values

from .report import Fate

ALWAYS = 0.95


def says(words: str, label: str) -> dict[str, str]:
    """The circumstances that a description names, by the grammar; the class is none of them."""
    told = named_values(words, label)
    return {attribute: value for attribute, value in told.items() if attribute != "object_class"}


def depicts(prompt: str) -> dict[str, str]:
    """What images of a whole prompt show besides its class, as the grammar reads captions.

    "A photo of a bee on the grass" is a photo, in clear weather, of a plain bee alone: captions say all else.
    Colour and background stay open where it names none.
    """
    return {name: value for name, value in parse(prompt).items() if name != "object_class"}


def names_bug(words: str, label: str, bug: Bug) -> bool:
    """Whether a description of the bug's class names its circumstance."""
    return label == bug.object_class and says(words, label).get(bug.attribute) == bug.value


def fate_of(bug: Bug, label: str, summary: BugHuntSummary) -> Fate:
    """Where a planted bug was found or lost."""
    held_out = [each for each in summary.bugs if names_bug(each.words, label, bug)]
    if any(each.state == "breaks" for each in held_out):
        return "found"
    if held_out:
        return "not-proven"
    if any(names_bug(each.words, label, bug) for each in summary.hypotheses):
        return "not-chosen"
    if summary.hypotheses:
        return "not-described"
    alone = summary.baselines[0].failure
    if alone.rate.estimate is not None and alone.rate.estimate >= ALWAYS:
        return "always-fails"
    return "not-shown" if alone.dropped.get("does-not-show-label") else "not-seen"
