"""A finding in one sentence of at most 20 words: what images are taken for, when, and how many."""

from __future__ import annotations

from faultline_core.contract.findings import FindingState
from faultline_core.stress_test.confirmation import MARGIN

MOST_WORDS = 20
_LONGEST_PHRASE = 6
_SIBILANTS = ("s", "x", "z", "ch", "sh")


def finding_sentence(
    state: FindingState,
    *,
    classifier: str,
    object_class: str,
    removed: str,
    added: str,
    taken_for: str | None,
    flipped: int,
    of: int,
) -> str:
    """Say what a change does to a classifier, and how sure it is.

    Args:
        state: how sure it is.
        classifier: the classifier's name.
        object_class: the true class.
        removed: the words that are taken away; empty for various ones or none.
        added: the words that are brought in; empty likewise.
        taken_for: the class that most wrong answers name, or None without any.
        flipped: the images, of ``of``, that the change makes wrong.
        of: the images that were looked at.
    """
    objects = plural(object_class)
    images = f"{of} image" if of == 1 else f"{of} images"
    untested = "" if state == "breaks" else ", not yet tested"
    if state == "holds":
        frame = f"{classifier} holds on {objects} {{}}: a loss of {MARGIN:.2f} or more is ruled out."
    elif state not in ("breaks", "suspected"):
        frame = f"{classifier} on {objects} {{}}: {images} cannot tell whether it loses them."
    elif taken_for is None:
        frame = f"{classifier} is less sure of {objects} {{}}: {images}{untested}."
    elif 2 * flipped < of:
        frame = f"{classifier} is less sure of {objects} {{}}: {flipped} of {images} turn wrong{untested}."
    else:
        others = plural(taken_for)
        frame = f"{classifier} takes {objects} for {others} {{}}: {flipped} of {images}{untested}."
    said = ""
    for most in range(_LONGEST_PHRASE, 0, -1):
        said = frame.replace("{}", when_changed(removed, added, most))
        if len(said.split()) <= MOST_WORDS:
            break
    return said


def when_changed(removed: str, added: str, most: int = _LONGEST_PHRASE) -> str:
    """Say when: once words are gone, are replaced or have been added; at most ``most`` of them each."""
    if removed and added:
        return f"once “{_short(removed, most)}” becomes “{_short(added, most)}”"
    return f"once “{_short(removed, most)}” is gone" if removed else f"once “{_short(added, most)}” is there"


def _short(phrase: str, most: int) -> str:
    """Cut a phrase from the front: “in the thick fog” keeps its “thick fog”."""
    spoken = phrase.split()
    return " ".join(spoken) if len(spoken) <= most else "…" + " ".join(spoken[-most:])


def plural(name: str) -> str:
    """Return the name of a class for several objects: plates, buses, flies, toys."""
    if name.endswith(_SIBILANTS):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in tuple("aeiou"):
        return f"{name[:-1]}ies"
    return f"{name}s"
