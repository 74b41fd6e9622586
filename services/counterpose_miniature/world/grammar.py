"""The closed language of the miniature world: captions, their parse, rewordings and edits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, Scene
from counterpose_miniature.world.wording import (
    PHRASES,
    SPECIAL_MARKS,
    SPECIAL_SUBJECTS,
    SYNONYMS,
    TEMPLATES,
    WORDS,
)

# Class swaps belong to "subject", because language models propose them; later filters must drop them.
EDIT_TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "subject": ("kind", "object_class"),
        "object": ("companion",),
        "background": ("background", "weather"),
        "adjective": ("colour",),
        "domain": ("style",),
    }
)
_TOKEN = re.compile(r"[a-z]+(?:-[a-z]+)*|[^\sa-z]")


def tokens(text: str) -> list[str]:
    """Split a caption into the word and punctuation tokens of the closed vocabulary."""
    return _TOKEN.findall(text.lower())


def class_name(object_class: str) -> str:
    """Return the word for a class."""
    if object_class not in VALUES["object_class"]:
        raise ValueError(f"unknown class {object_class!r}")
    return object_class


def phrase(attribute: str, value: str, object_class: str) -> str:
    """Return the words for an attribute value in a caption; empty for clear weather and no companion."""
    if value not in VALUES[attribute]:
        raise ValueError(f"{attribute} has no value {value!r}")
    if attribute == "kind":
        return _subject(object_class, value, "")
    return PHRASES[attribute][value] if attribute in PHRASES else value


def _subject(object_class: str, kind: str, colour: str) -> str:
    frame = "{}" + class_name(object_class) if kind == "plain" else SPECIAL_SUBJECTS[object_class]
    return frame.format(colour and f"{colour} ")


def caption(scene: Scene, template: int = 0) -> str:
    """Describe a scene in one of TEMPLATES; at most 20 tokens."""
    text = TEMPLATES[template].format(
        style=scene.style,
        subject=_subject(scene.object_class, scene.kind, scene.colour),
        **{name: table[getattr(scene, name)] for name, table in PHRASES.items()},
    )
    return " ".join(text.split()).replace(" ,", ",")


def parse(text: str) -> dict[str, str]:
    """Read the attribute values of a caption: complete, partial, edited or reworded.

    An attribute that the text does not determine is absent. If a class is named, a missing companion means
    "none", missing weather means "clear", and the kind is "special" if the text has the class's mark.
    """
    found: dict[str, str] = {}
    spoken = tokens(text)
    for word in spoken:
        # Single words decide, so that parts, edits and rewordings are parsed like complete captions.
        if word in WORDS:
            attribute, value = WORDS[word]
            found.setdefault(attribute, value)
    if "object_class" in found:
        found["kind"] = "special" if SPECIAL_MARKS[found["object_class"]] in spoken else "plain"
        found.setdefault("companion", "none")
        found.setdefault("weather", "clear")
    return {attribute: found[attribute] for attribute in ATTRIBUTES if attribute in found}


def rewordings(text: str) -> list[str]:
    """Return the captions that differ from `text` by one synonym, in either direction: the placebos."""
    pairs = [(old, new) for old, news in SYNONYMS.items() for new in news]
    pairs += [(new, old) for old, new in pairs]
    changed = (re.sub(rf"\b{re.escape(old)}\b", new, text, count=1) for old, new in pairs)
    return [candidate for candidate in dict.fromkeys(changed) if candidate != text]


def words() -> tuple[str, ...]:
    """Return the closed vocabulary, sorted: every token of captions, phrases and synonyms."""
    texts = [template.replace("{", " ").replace("}", " ") for template in TEMPLATES]
    fields = {"style", "subject", "background", "weather", "companion"}
    spoken = {word for text in texts for word in tokens(text)} - fields
    for subject in SPECIAL_SUBJECTS.values():
        spoken.update(tokens(subject.format("")))
    for table in PHRASES.values():
        spoken.update(word for value in table.values() for word in tokens(value))
    for attribute in ("object_class", "colour", "style"):
        spoken.update(VALUES[attribute])
    for old, news in SYNONYMS.items():
        spoken.update(word for text in (old, *news) for word in tokens(text))
    return tuple(sorted(spoken))


@dataclass(frozen=True, slots=True)
class Edit:
    """One attribute changed in words and in the scene."""

    edit_type: str
    attribute: str
    old: str
    new: str
    caption: str
    edited_caption: str
    scene_after: Scene


def edits(scene: Scene, edit_type: str, template: int = 0) -> list[Edit]:
    """Return every one-attribute edit of a type; some give withheld scenes, which training must skip."""
    if edit_type not in EDIT_TYPES:
        raise ValueError(f"edit type must be one of {tuple(EDIT_TYPES)}, not {edit_type!r}")
    found: list[Edit] = []
    for attribute in EDIT_TYPES[edit_type]:
        old = getattr(scene, attribute)
        for new in VALUES[attribute]:
            if new != old:
                after = scene.changed(attribute, new)
                words = (caption(scene, template), caption(after, template))
                found.append(Edit(edit_type, attribute, old, new, *words, scene_after=after))
    return found
