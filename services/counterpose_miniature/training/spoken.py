"""Texts for contrastive training: complete captions, parts of captions, and single words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterpose_miniature.world import ATTRIBUTES, VALUES, Scene, caption
from counterpose_miniature.world.grammar import class_name, phrase
from counterpose_miniature.world.wording import SPECIAL_MARKS, SYNONYMS, TEMPLATES

# The index of every attribute value in a vector: a text allows some values, an image has some.
_PLACES: dict[tuple[str, str], int] = {
    pair: place
    for place, pair in enumerate(
        (attribute, value) for attribute in ATTRIBUTES for value in VALUES[attribute]
    )
}
_REWORDED = 0.3


@dataclass(frozen=True)
class Spoken:
    """A text and the attribute values it allows, bool [places]."""

    text: str
    allows: np.ndarray


def held(scene: Scene) -> np.ndarray:
    """Return the values of a scene, bool [places]; a text fits if it allows all seven."""
    values = np.zeros(len(_PLACES), dtype=bool)
    for attribute, value in scene.attributes().items():
        values[_PLACES[attribute, value]] = True
    return values


def whole(scene: Scene, generator: np.random.Generator) -> Spoken:
    """Return a complete caption in a random template, with some synonyms."""
    text = reworded(caption(scene, int(generator.integers(len(TEMPLATES)))), generator)
    return Spoken(text, held(scene))


def reworded(text: str, generator: np.random.Generator) -> str:
    """Replace each phrase that has synonyms by one of these, with probability 0.3."""
    for old, news in SYNONYMS.items():
        if old in text and generator.random() < _REWORDED:
            text = text.replace(old, news[int(generator.integers(len(news)))])
    return text


def part(scene: Scene, generator: np.random.Generator) -> Spoken:
    """Return a word or a few phrases that leave the other attributes open.

    A part never names style, colour and background together, so that a missing companion means "none" in a
    complete caption and "any" in a part.
    """
    draw = generator.random()
    forms: tuple[tuple[float, Callable[[Scene, np.random.Generator], Spoken]], ...] = (
        (0.3, _class_prompt),
        (0.65, _one_word),
        (1.0, _phrases),
    )
    make = next(form for limit, form in forms if draw < limit)
    spoken = make(scene, generator)
    return Spoken(reworded(spoken.text, generator), spoken.allows)


def _allowing(scene: Scene, *attributes: str) -> np.ndarray:
    allows = np.ones(len(_PLACES), dtype=bool)
    for attribute in attributes:
        for value in VALUES[attribute]:
            allows[_PLACES[attribute, value]] = value == getattr(scene, attribute)
    return allows


def _subject(scene: Scene, generator: np.random.Generator, *, coloured: bool) -> tuple[str, list[str]]:
    # The special wording gives the kind; the bare class name leaves it open.
    named = ["object_class"]
    words = class_name(scene.object_class)
    if scene.kind == "special" and generator.random() < 0.5:
        words = phrase("kind", "special", scene.object_class)
        named.append("kind")
    if coloured:
        words = words.replace(scene.object_class, f"{scene.colour} {scene.object_class}")
        named.append("colour")
    return words, named


def _class_prompt(scene: Scene, generator: np.random.Generator) -> Spoken:
    words, named = _subject(scene, generator, coloured=generator.random() < 0.4)
    if generator.random() < 0.7:
        return Spoken(f"a {scene.style} of a {words}", _allowing(scene, "style", *named))
    return Spoken(f"a {words}", _allowing(scene, *named))


def _one_word(scene: Scene, generator: np.random.Generator) -> Spoken:
    choices = [(name, getattr(scene, name)) for name in ("object_class", "colour", "background", "style")]
    choices += [("weather", scene.weather)] if scene.weather != "clear" else []
    choices += [("companion", scene.companion)] if scene.companion != "none" else []
    choices += [("kind", SPECIAL_MARKS[scene.object_class])] if scene.kind == "special" else []
    attribute, word = choices[int(generator.integers(len(choices)))]
    if attribute == "kind":
        return Spoken(word, _allowing_mark(scene, word))
    frames = ["{}", "a {}"] if attribute in ("object_class", "companion", "style") else ["{}"]
    if attribute in ("background", "weather", "companion"):
        frames.append(phrase(attribute, word, scene.object_class).replace(word, "{}"))
    frame = frames[int(generator.integers(len(frames)))]
    return Spoken(frame.format(word), _allowing(scene, attribute))


def _allowing_mark(scene: Scene, mark: str) -> np.ndarray:
    # "spread" and "double-decker" mark the special kind of two classes each.
    allows = _allowing(scene, "kind")
    for name, other in SPECIAL_MARKS.items():
        allows[_PLACES["object_class", name]] = other == mark
    return allows


def _phrases(scene: Scene, generator: np.random.Generator) -> Spoken:
    left_out = ("style", "colour", "background")[int(generator.integers(3))]
    words, named = _subject(scene, generator, coloured=left_out != "colour" and generator.random() < 0.7)
    pieces = [f"a {words}"]
    if left_out != "style" and generator.random() < 0.7:
        pieces = [f"a {scene.style} of a {words}"]
        named.append("style")
    for attribute in ("companion", "background", "weather"):
        said = phrase(attribute, getattr(scene, attribute), scene.object_class)
        if said and attribute != left_out and generator.random() < 0.5:
            pieces.append(said)
            named.append(attribute)
    return Spoken(" ".join(pieces), _allowing(scene, *named))
