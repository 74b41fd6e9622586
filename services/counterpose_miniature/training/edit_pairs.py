"""Caption pairs from the grammar, which the perturber learns from, and the criterion of success."""

from __future__ import annotations

from typing import get_args

import numpy as np

from counterpose_core.text.caption_diff import compact_prompt, difference
from counterpose_core.types import PerturbationType
from counterpose_miniature.training.caption_text import (
    drawn,
    drawn_caption,
    drawn_scene,
    drawn_template,
    parts_of,
    swapped,
    worded,
)
from counterpose_miniature.world import ATTRIBUTES, VALUES, Scene, caption, is_withheld, parse
from counterpose_miniature.world.grammar import EDIT_TYPES, edits, phrase, rewordings, tokens, words
from counterpose_miniature.world.wording import WORDS

TYPES: tuple[PerturbationType, ...] = get_args(PerturbationType)
PROMPT_WORDS: tuple[str, ...] = (*TYPES, ":", "=", ">")
PLANS: tuple[str, ...] = tuple(f"<{name}>" for name in ATTRIBUTES)
_REWORDED = 0.2
# Some class swaps, as other perturbers make them, so that the label filter has something to drop.
_CLASS_SWAPS = 0.2
_LOOSE = 0.4
_ASKED = 0.55


def base_text(generator: np.random.Generator) -> tuple[str, str]:
    """Draw a prompt and an answer for the base: mostly requested edits, else simpler parts of that task.

    On a base that had only written and copied captions, an adapter of rank 8 edited the companion for every
    requested type. So the base must already know the task, which the adapter refines.
    """
    kind = drawn(TYPES, generator)
    if generator.random() < _ASKED:
        return asked_edit(kind, generator, loose=_LOOSE)
    task = generator.random()
    if task < 0.08:
        return "", drawn_caption(generator, reworded=_REWORDED)
    if task < 0.2:
        text = " ".join(generator.choice(words(), int(generator.integers(4, 19))))
        return f": {text} =>", text
    if task < 0.32:
        text = drawn_caption(generator, reworded=_REWORDED, loose=_LOOSE)
        return f": {text} =>", text
    if task < 0.5:
        before, after = _varied(generator)
        return f": {before} =>", after
    if task < 0.62:
        scene = drawn_scene(generator)
        return f"{kind} : {worded(scene, drawn_template(generator, loose=_LOOSE))} =", _named(scene, kind)
    before, after = edit_pair(kind, generator, loose=_LOOSE)
    return f"{kind} = {difference(before, after).added_text} : {before} =>", after


def _varied(generator: np.random.Generator) -> tuple[str, str]:
    """Draw a caption and one with at least one changed attribute, each with probability 0.2."""
    scene = drawn_scene(generator)
    after = scene
    while after == scene or is_withheld(after):
        after = scene
        for name in ATTRIBUTES:
            if generator.random() < 0.2:
                others = [value for value in VALUES[name] if value != getattr(scene, name)]
                after = after.changed(name, drawn(others, generator))
    return _worded(scene, after, generator, loose=_LOOSE)


def _worded(before: Scene, after: Scene, generator: np.random.Generator, *, loose: float) -> tuple[str, str]:
    template = drawn_template(generator, loose=loose)
    first, second = swapped([worded(before, template), worded(after, template)], generator, share=_REWORDED)
    return first, second


def _named(scene: Scene, kind: PerturbationType) -> str:
    """Return the words of a scene's caption that edits of a type change; for a placebo, all words."""
    attributes = EDIT_TYPES.get(kind)
    if attributes is None:
        return caption(scene)
    shown = [name for name in attributes if name != "object_class"]
    return " ".join(phrase(name, getattr(scene, name), scene.object_class) for name in shown).strip()


def asked_edit(
    kind: PerturbationType, generator: np.random.Generator, *, loose: float = 0.0
) -> tuple[str, str]:
    """Draw a prompt and its answer: a plan, which decoding skips, and the edited caption.

    Without a plan, the model decides at each position separately whether to edit, and makes no edit or two
    in half of the cases in which a type has two positions.
    """
    before, after = edit_pair(kind, generator, loose=loose)
    return compact_prompt(kind, before), f"{plan_of(before, after)} {after}"


def plan_of(before: str, after: str) -> str:
    """Return the special word for the attribute whose wording an edit changes."""
    old, new = parse(before), parse(after)
    for name in ATTRIBUTES:
        if old[name] != new[name]:
            return f"<{name}>"
    change = difference(before, after)
    touched = tokens(f"{change.removed_text} {change.added_text}")
    if "deep" in touched:
        return "<background>"
    return next((f"<{WORDS[word][0]}>" for word in touched if word in WORDS), "<companion>")


def edit_pair(
    kind: PerturbationType, generator: np.random.Generator, *, loose: float = 0.0
) -> tuple[str, str]:
    """Draw a caption and one edit of it, without withheld combinations and templates."""
    if kind == "placebo":
        before = drawn_caption(generator, reworded=_REWORDED, loose=loose)
        return before, drawn(rewordings(before), generator)
    scene = drawn_scene(generator)
    allowed = [edit for edit in edits(scene, kind) if not is_withheld(edit.scene_after)]
    attribute = drawn(EDIT_TYPES[kind], generator)
    if kind == "subject":
        attribute = "object_class" if generator.random() < _CLASS_SWAPS else "kind"
    chosen = [edit for edit in allowed if edit.attribute == attribute] or allowed
    return _worded(scene, drawn(chosen, generator).scene_after, generator, loose=loose)


def succeeds(before: str, after: str, kind: PerturbationType) -> bool:
    """Return True if an edit changes one attribute of its type and keeps all other words and the order.

    An added part may be anywhere between others. A placebo changes the wording but no attribute.
    """
    old_parts, new_parts = parts_of(before), parts_of(after)
    old, new = parse(before), parse(after)
    if old_parts is None or new_parts is None or set(old) != set(new):
        return False
    changed = {name for name in ATTRIBUTES if old[name] != new[name]}
    come_or_gone = changed & (set(old_parts) ^ set(new_parts))
    if [part for part in old_parts if part not in come_or_gone] != [
        part for part in new_parts if part not in come_or_gone
    ]:
        return False
    if kind == "placebo":
        return not changed and tokens(before) != tokens(after)
    if len(changed) != 1 or not changed <= set(EDIT_TYPES[kind]):
        return False
    return _wording(before, changed) == _wording(after, changed)


def _wording(text: str, without: set[str]) -> dict[str, str]:
    """Return the word that determines each attribute, apart from the attributes in `without`."""
    said = [word for word in tokens(text) if word in WORDS]
    return {WORDS[word][0]: word for word in said if WORDS[word][0] not in without}
