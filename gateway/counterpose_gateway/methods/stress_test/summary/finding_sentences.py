"""A finding in one sentence of at most 20 words: what images are taken for, when, and how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.confirmation import WordingScope
from counterpose_core.contract.findings import FindingState
from counterpose_core.stress_test.confirmation import MARGIN

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
    edit_type: str = "image",
    mostly: tuple[str, str] = ("", ""),
    drawn: int | None = None,
    scope: WordingScope = "plain",
    conjunction: Sequence[str] = (),
    alone: int = 0,
) -> str:
    """Say what a change does to a classifier, and how sure it is; phrases are cut where they are too long.

    Args:
        state: how sure it is.
        classifier: the classifier's name.
        object_class: the true class.
        removed: the words that are taken away; empty for various ones or none.
        added: the words that are brought in; empty likewise.
        taken_for: the class that most wrong answers name, or None without any.
        flipped: the pairs, of ``of``, whose answer the change makes wrong.
        of: the pairs that were looked at, one for each image unless ``drawn`` is given.
        edit_type: what the edits change, said where they share no words.
        mostly: the removed and added words behind the harm, said where the edits share none.
        drawn: the number of images that were edited several times each: it is said of these images alone.
        scope: what the wordings of an open side have in common: “is gone” and “is there” are said of words
            that go, or come in, by themselves.
        conjunction: two conditions that were tested together, in place of words.
        alone: the images with one of the conditions alone that are answered wrong, of that with more of them.
    """
    said = ""
    for most in range(_LONGEST_PHRASE, 0, -1):
        when = when_changed(removed, added, most, edit_type, scope)
        if conjunction:
            when = "where " + " meets ".join(f"“{_short(each, most)}”" for each in conjunction)
        elif not (removed or added) and any(mostly):
            when = f"mostly {when_changed(*mostly, most, scope='mixed')}"
        objects = plural(_short(object_class, most))
        effect, counted = _effect(state, taken_for and _short(taken_for, most), flipped, of, drawn)
        if conjunction and state == "breaks":
            counted += f", {alone} with one alone"
        said = f"{classifier} {effect.replace('{}', objects, 1)} {when}: {counted}."
        if len(said.split()) <= MOST_WORDS:
            break
    return said


def _effect(
    state: FindingState, taken_for: str | None, flipped: int, of: int, drawn: int | None
) -> tuple[str, str]:
    """What happens to the objects, which stand at the braces, and the count behind it."""
    images = f"{of} image" if of == 1 else f"{of} images"
    these = "" if drawn is None else " on this image" if drawn == 1 else f" on these {drawn} images"
    repeats = f"{of} repeats on {'one image' if drawn == 1 else f'{drawn} images'}"
    turned = f"{flipped} of {images if drawn is None else repeats}"
    untested = "" if state == "breaks" or drawn is not None else ", not yet tested"
    if state == "holds":
        return (
            "holds on {}",
            f"a loss of {MARGIN:.2f}{' or more' if drawn is None else ''} is ruled out{these}",
        )
    if state not in ("breaks", "suspected"):
        return "on {}", f"{images if drawn is None else f'{of} tries{these}'} cannot tell whether this hurts"
    if taken_for is None:
        return "is less sure of {}", f"{images if drawn is None else repeats}{untested}"
    if 2 * flipped < of:
        return "is less sure of {}", f"{turned} turn wrong{untested}"
    return f"takes {{}} for {plural(taken_for)}", f"{turned}{untested}"


_OPEN_SIDE: Mapping[WordingScope, tuple[str, str]] = {
    "plain": ("once {} is gone", "once {} is there"),
    "replaced": ("once {} becomes something else", "once something becomes {}"),
    "mixed": ("once {} changes", "once {} comes in"),
}


def when_changed(
    removed: str,
    added: str,
    most: int = _LONGEST_PHRASE,
    edit_type: str = "image",
    scope: WordingScope = "plain",
) -> str:
    """Say when: once words are gone, are replaced or have been added; at most ``most`` of them each."""
    if removed and added:
        return f"once “{_short(removed, most)}” becomes “{_short(added, most)}”"
    if removed or added:
        gone, there = _OPEN_SIDE[scope]
        return (gone if removed else there).format(f"“{_short(removed or added, most)}”")
    return f"when the {edit_type} changes"


def _short(phrase: str, most: int) -> str:
    """Cut a phrase from the front: “in the thick fog” keeps its “thick fog”, and “of food” its “food”."""
    spoken = phrase.split()
    # It ties the words to the class, and without the class it is a fragment.
    spoken = spoken[1:] if len(spoken) > 1 and spoken[0] == "of" else spoken
    return " ".join(spoken) if len(spoken) <= most else "…" + " ".join(spoken[-most:])


def plural(name: str) -> str:
    """Return the name of a class for several objects: plates, buses, flies, toys."""
    if name.endswith(_SIBILANTS):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in tuple("aeiou"):
        return f"{name[:-1]}ies"
    return f"{name}s"
