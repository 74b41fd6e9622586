"""Why an image of a stress test was left out: a closed set of reasons, each in words."""

from __future__ import annotations

LEFT_OUT = {
    "gate-direction": "the image does not change as its caption does",
    "gate-image-image": "the edited image strays from the original",
    "gate-image-text": "an image does not fit its caption",
    "gate-closer": "the image is still closer to the original caption",
    "gate-new-word": "the image is not closer to the new word",
    "gate-judges": "too few judges call it right",
    "gate-undecided": "it hangs on a judge that has no vote",
    "gate-preservation": "more or less changed than was asked for",
    "no-edit": "no edit was proposed",
    "label-in-edit": "the words concern the class",
    "edit-too-similar": "the new words say the same",
    "duplicate-edit": "the edit was proposed twice",
    "not-applicable": "the caption lacks the words",
    "policy": "a content policy refuses it",
    "subjective": "the new words are subjective",
    "no-region": "no mask bounds the region",
    "malformed-caption": "no generator can read the caption",
    "safety": "the safety checker flags the image",
    "objectionable": "the image may be objectionable",
    "image-used-before": "an earlier run made a pair of the image",
    "drawn": "it repeats an edit of an image, and others of the class were tested since",
    "repeated-draw": "the editor made the same image before",
    "other-wording": "it shows another wording",
    "unanswered": "the classifier did not answer",
    "failed": "it failed",
    "cancelled": "it was cancelled",
    "pending": "it was not made",
    "leased": "it was not made",
}
"""Reason of a filtered item, or the state of one that was not made → the words for it."""

CONTROL = "placebo-"
"""Begins the reason of a pair whose control was left out."""


def why_left_out(reason: str) -> str:
    """Return a reason in words; one that a newer version wrote stays as it is."""
    bare = reason.removeprefix(CONTROL)
    words = LEFT_OUT.get(bare, bare)
    return words if bare == reason else f"{words} (its control)"
