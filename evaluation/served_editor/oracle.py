"""The images server that knows the scenes: it reads the instruction, renders the answer, and plants faults.

It is test equipment. Nothing of it reaches the product but images over HTTP.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from counterpose_core.blobs import cache_key, digest
from counterpose_core.images.codecs import Pixels, encode_png, encode_raw
from counterpose_core.images.masks import BLACK, WHITE, Matte
from counterpose_core.preservation.arrays import grown
from counterpose_core.text.edit_instruction import TEMPLATES
from counterpose_core.transforms.arrays import Mask
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.sampling import FREE_NUISANCE
from counterpose_miniature.world.scene import VALUES, Scene
from evaluation.preservation.planting import VISIBLE, difference, noisy, resized
from evaluation.preservation.trials import TOUCHED, region_of_attribute
from evaluation.served_editor.plan import FAULTS, LATE_S, NOISE, OVER_EDITED, SIZES, Plan
from evaluation.validity.changes import asked as changes_asked
from fakes.images_server import Asked, Reply, drawing, refusal

_TEMPLATE = TEMPLATES["both-captions"]
_LEAST_EXTRA = 0.01
"""Share of what should stay that an extra change must touch."""


def captions_of(prompt: str) -> tuple[str, str] | None:
    """Return the caption and the edited one of an instruction; None if it asks for no change.

    Raises:
        ValueError: it is none of the template's.
    """
    if prompt == _TEMPLATE.unchanged:
        return None
    for text in _TEMPLATE.texts.values():
        form = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(text))
        if read := re.fullmatch(form, prompt):
            return read["caption"], read["edited"]
    raise ValueError(f"not an instruction of the template: {prompt!r}")


@dataclass(frozen=True)
class Question:
    """A scene and what it is asked to become: the true counterfactual, and where it may differ."""

    before: Scene
    changes: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, scene: Scene, prompt: str) -> Question:
        """Read an instruction; raises ValueError as `captions_of` does."""
        captions = captions_of(prompt)
        return cls(scene, {} if captions is None else changes_asked(*captions))

    @property
    def after(self) -> Scene:
        """The scene with every change that the captions name, whatever the scene showed before."""
        scene = self.before
        for attribute, (_, value) in self.changes.items():
            scene = scene.changed(attribute, value)
        return scene

    def region(self, source: Pixels, edited: Pixels) -> Mask:
        """Return where (H, W) the change belongs; nowhere if none was asked for."""
        region = np.zeros(source.shape[:2], dtype=np.bool_)
        for attribute in self.changes:
            region |= region_of_attribute(attribute, self.before, self.after, source, edited)
        return region


def mask_file(scene: Scene) -> bytes:
    """Return the PNG that a user uploads as the mask of a scene's object, with its soft edge."""
    levels = np.rint(object_mask(scene) * WHITE).astype(np.uint8)
    return encode_png(np.repeat(levels[..., None], 3, axis=2))


@dataclass(frozen=True)
class Answer:
    """What the server did, the planted fault, and whether the change that was asked for can be seen."""

    image: str
    group: str
    fault: str
    changes: Mapping[str, tuple[str, str]]
    seen: bool


@dataclass
class Oracle:
    """Answers questions about ``scenes``, by the name of their image, and notes by question what it did."""

    plan: Plan
    scenes: Mapping[str, Scene]
    note: Callable[[str, Answer], None]
    _asked: Counter[str] = field(default_factory=Counter)

    def __call__(self, asked: Asked, closing: threading.Event) -> Reply:
        """Answer ``POST /v1/images/edits``."""
        if asked.path != "/v1/images/edits" or asked.image is None:
            return refusal(404, "not_found", "Only edits are served.")
        image, prompt = digest(encode_raw(asked.image)), str(asked.fields["prompt"])
        if image not in self.scenes:
            return refusal(400, "unknown_image", "The image shows no scene of mine.")
        try:
            question = Question.of(self.scenes[image], prompt)
        except ValueError as error:
            return refusal(400, "unknown_instruction", str(error))
        seed = int(str(asked.fields["seed"]))
        key = question_key(image, prompt, seed)
        again = self._asked[key]
        self._asked[key] += 1
        generator = np.random.default_rng([self.plan.seed, int(key[:15], 16)])
        pixels, done = self._answered(image, question, asked.mask, generator, again)
        self.note(key, done)
        if done.group == "refuses":
            return refusal(400, "content_policy_violation", "Not this image.")
        if done.group == "late" and not again:
            closing.wait(LATE_S)
        # Of the request's seed alone, as a model draws its noise.
        return drawing(
            encode_png(noisy(pixels, np.random.default_rng([self.plan.seed, seed]), deviation=NOISE))
        )

    def _answered(
        self, image: str, question: Question, mask: Matte | None, generator: np.random.Generator, again: int
    ) -> tuple[Pixels, Answer]:
        """Return an image and what was done to it; the right one where nobody would see the fault.

        Of a mask only this is taken: what is planted lies outside.
        """
        group = self.plan.group(generator)
        source, edited = render(question.before), render(question.after)
        region = question.region(source, edited)
        seen = difference(source, edited, region) >= VISIBLE
        if group == "ignored" and not seen:
            group = "obeys"
        if mask is not None:
            region |= mask == BLACK
        fault, planted = _planted(group, question, (source, edited, region), generator, again)
        if planted is None:
            group, fault = group if group in ("refuses", "late") else "obeys", "none"
        return edited if planted is None else planted, Answer(image, group, fault, question.changes, seen)


def question_key(image: str, prompt: str, seed: int | None) -> str:
    """Return the name of a question, by which its answer is kept."""
    return cache_key(image=image, prompt=prompt, seed=seed)


def _planted(
    group: str,
    question: Question,
    images: tuple[Pixels, Pixels, Mask],
    generator: np.random.Generator,
    again: int,
) -> tuple[str, Pixels | None]:
    """Return the fault's name and image; None where there is none."""
    source, edited, region = images
    if group in FAULTS:
        name = str(generator.choice(list(FAULTS[group])))
        return name, FAULTS[group][name](edited, region, generator)
    if group == "over-edit":
        return _over_edited(question, edited, region, generator)
    if group == "another image":
        # Another one at each call, whatever the seed.
        nuisance = int(generator.integers(*FREE_NUISANCE)) + again
        return "drawn anew", render(replace(question.after, nuisance=nuisance))
    if group == "another size":
        scale = float(generator.choice(SIZES))
        return f"{scale:g} of the side", resized(edited, generator, scale=scale)
    return "the source again", source if group == "ignored" else None


def _over_edited(
    question: Question, edited: Pixels, region: Mask, generator: np.random.Generator
) -> tuple[str, Pixels | None]:
    """Return the attribute that changed beside what was asked, and the image; None if nobody sees it."""
    free = [attribute for attribute in OVER_EDITED if attribute not in question.changes]
    extra = str(generator.choice(free))
    others = [value for value in VALUES[extra] if value != getattr(question.after, extra)]
    image = render(question.after.changed(extra, str(generator.choice(others))))
    away = np.abs(image.astype(int) - edited).max(axis=-1) > TOUCHED
    seen = difference(edited, image, away & ~grown(region, 1)) >= VISIBLE
    rest = away[~region]
    return f"{extra} too", image if seen and rest.size and rest.mean() > _LEAST_EXTRA else None
