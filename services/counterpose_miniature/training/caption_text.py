"""Captions as training text: drawn from the grammar, some reworded, none of a withheld combination."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from counterpose_miniature.world import ATTRIBUTES, VALUES, Distribution, Scene, caption, parse, sample_scene
from counterpose_miniature.world.grammar import phrase
from counterpose_miniature.world.wording import (
    PHRASES,
    SPECIAL_SUBJECTS,
    SYNONYMS,
    TEMPLATES,
    WITHHELD_TEMPLATES,
)

T = TypeVar("T")

TEXT_SCENES = Distribution(allow_withheld=False)
_PHRASED = ("background", "weather", "companion")
_PAUSED = ("a {style}", "a {subject}", "a {style} of a {subject}", "{background}")
# The order of the withheld template; weather and companion may be empty, so their positions do not matter.
_WITHHELD_ORDER = re.compile(r"a \{style\} .*a \{subject\} .*\{background\}")
TRAINED_TEMPLATES = tuple(index for index in range(len(TEMPLATES)) if index not in WITHHELD_TEMPLATES)


def drawn_scene(generator: np.random.Generator) -> Scene:
    """Draw a scene uniformly, without the withheld combinations."""
    return sample_scene(generator, TEXT_SCENES)


def drawn_caption(generator: np.random.Generator, *, reworded: float = 0.3, loose: float = 0.0) -> str:
    """Draw a caption, with synonyms by probability `reworded` and a free order of parts by `loose`."""
    text = worded(drawn_scene(generator), drawn_template(generator, loose=loose))
    return swapped([text], generator, share=reworded)[0]


def worded(scene: Scene, template: str) -> str:
    """Describe a scene in a template of the grammar, or of the same fields in another order."""
    parts = {name: phrase(name, getattr(scene, name), scene.object_class) for name in _PHRASED}
    # The subject is taken from the grammar's caption, which knows the position of the colour.
    subject = caption(scene).removeprefix(f"a {scene.style} of a ").partition(f" {parts['background']}")[0]
    text = template.format(style=scene.style, subject=subject, **parts)
    return " ".join(text.split()).replace(" ,", ",").removesuffix(",")


def drawn_template(generator: np.random.Generator, *, loose: float = 0.0) -> str:
    """Draw a trained template, or with probability `loose` a free order of parts, never a withheld one.

    Copying and editing that is learned in only a few orders does not generalise to others.
    """
    if generator.random() >= loose:
        return TEMPLATES[drawn(TRAINED_TEMPLATES, generator)]
    while True:
        heads = ["a {style} of a {subject}"] if generator.random() < 0.3 else ["a {style}", "a {subject}"]
        parts = [*heads, "{background}", "{weather}", "{companion}"]
        ordered = [parts[place] for place in generator.permutation(len(parts))]
        if not _WITHHELD_ORDER.search(" ".join(ordered)):
            break
    commas = [" ," if part in _PAUSED and generator.random() < 0.4 else "" for part in ordered[:-1]]
    return " ".join(part + comma for part, comma in zip(ordered, [*commas, ""], strict=True))


def drawn(choices: Sequence[T], generator: np.random.Generator) -> T:
    """Draw one of the choices with equal probability."""
    return choices[int(generator.integers(len(choices)))]


def swapped(texts: list[str], generator: np.random.Generator, *, share: float) -> list[str]:
    """Replace phrases of the first text by synonyms, each with probability `share`, in all texts."""
    for old, news in SYNONYMS.items():
        if old in texts[0] and generator.random() < share:
            new = drawn(news, generator)
            texts = [re.sub(rf"\b{re.escape(old)}\b", new, text) for text in texts]
    return texts


def canonical(text: str) -> str:
    """Replace every synonym by its phrase."""
    for old, news in SYNONYMS.items():
        for new in news:
            text = re.sub(rf"\b{re.escape(new)}\b", old, text)
    return text


def templates_of(text: str) -> set[int]:
    """Return the templates that a caption follows, apart from synonyms; none if it is not well formed.

    Without a companion or weather, templates that differ only in their positions give the same caption.
    """
    values = parse(text)
    if set(values) != set(ATTRIBUTES):
        return set()
    scene = Scene(**values, nuisance=0)
    plain = canonical(text)
    return {index for index in range(len(TEMPLATES)) if caption(scene, index) == plain}


def parts_of(text: str) -> list[str] | None:
    """Parse a caption, apart from synonyms, into complete parts and commas; None if a word is left over.

    The parts are style, subject, "style of subject", background, weather, companion and ",".
    """
    rest, found = canonical(text), []
    while rest:
        match = _PART.match(rest)
        if match is None:
            return None
        found.append(str(match.lastgroup).replace("_", " ") if match.lastgroup else ",")
        rest = rest[match.end() :].lstrip()
    named = [name for name in found if name != ","]
    return found if len(set(named)) == len(named) else None


def _part_pattern() -> re.Pattern[str]:
    colours = f"(?:{'|'.join(VALUES['colour'])}) "
    kinds = [SPECIAL_SUBJECTS[name].format(colours) for name in VALUES["object_class"]]
    # Special kinds first, because "fly with spread wings" begins like "fly".
    subject = "|".join([*kinds, *(colours + name for name in VALUES["object_class"])])
    style = "|".join(VALUES["style"])
    choices = [
        f"(?P<style_of_subject>a (?:{style}) of a (?:{subject}))",
        f"(?P<style>a (?:{style}))",
        f"(?P<subject>a (?:{subject}))",
        *(f"(?P<{name}>{'|'.join(filter(None, table.values()))})" for name, table in PHRASES.items()),
    ]
    return re.compile(rf"(?:{'|'.join(choices)})(?![\w-])|,")


_PART = _part_pattern()
