"""What is measured: presets of a suite's editor, operations on images as controls, and the true results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from PIL import Image

from counterpose_core.blobs import digest
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.suite import Suite
from counterpose_core.transforms.application import apply, generator_of
from counterpose_core.transforms.arrays import Pixels
from counterpose_core.transforms.table import operation
from counterpose_services.settings import ServiceSettings
from evaluation.edit_quality.editing import Editing
from evaluation.pie_bench.data import Pair, read_pixels

SEED = 0
IDENTITY, TRUTH = "identity", "true-target"


@dataclass(frozen=True)
class Edited:
    """An edited image in its source's size, and what is known of how it came about."""

    image: Pixels
    about: Mapping[str, Any] = field(default_factory=dict)


class Contestant(Protocol):
    """Makes an image of each pair; ``key`` names all that its images depend on beside the pair."""

    name: str
    key: str

    def edited(self, pair: Pair, source: Pixels) -> Edited: ...


class OfPreset:
    """A preset of the suite's editor, loaded with its first edit; the gate's verdict drops nothing."""

    def __init__(self, suite: Suite, name: str, settings: ServiceSettings) -> None:
        presets = suite.editor.presets
        if name not in presets:
            raise InvalidRequest(
                f"the suite {suite.name!r} has no preset {name!r}; it has {', '.join(presets)}"
            )
        self.name, self._suite, self._settings = name, suite, settings
        self._preset: EditorPreset = presets[name]
        self.key = f"{suite.name} {self._preset.model_dump_json()}"
        if self._preset.region is not None:
            # Of before it had a part in the edits, images are kept under the key of the preset alone.
            self.key += " in the mask of the pair"
        self._editing: Editing | None = None

    def edited(self, pair: Pair, source: Pixels) -> Edited:
        """Edit by the captions, and in the pair's mask if the preset has a region; choose as a run does."""
        if self._editing is None:
            folder = self._settings.state_dir / "stores" / self.name
            self._editing = Editing(self._suite, self._preset, folder, settings=self._settings)
        editing, png = self._editing, encode_png(source)
        captions = [(pair.caption, pair.edited_caption)]
        [choice], costs = editing.chosen(png, captions, pair.mask(source.shape[:2]))
        image = decode_image(editing.store.get(choice.image))
        about = {
            "kept": choice.failed is None,
            "failed": choice.failed,
            "strength": choice.strength,
            "reconstruction_psnr": editing.reconstruction_db(png, pair.caption),
            "resized": image.shape != source.shape,
            **costs,
        }
        if image.shape != source.shape:
            size = (source.shape[1], source.shape[0])
            image = np.array(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))
        return Edited(image, about)


class OfOperation:
    """An operation at a level, or the source again (`identity`): what the metrics say of no edit at all."""

    def __init__(self, spec: str) -> None:
        name, _, level = spec.partition("=")
        self.name = self.key = f"transform:{spec}"
        self._row = None if name == IDENTITY else operation(name)
        self._level = int(level or 1)
        if self._row is not None and (self._row.needs_mask or self._row.needs_other):
            raise InvalidRequest(f"{name!r} needs the object's mask or another photograph, which no pair has")

    def edited(self, pair: Pair, source: Pixels) -> Edited:
        """Carry out the operation; a pair's captions have no part in it."""
        if self._row is None:
            return Edited(source)
        generator = generator_of(digest(source.tobytes()), self._row.name, self._level, SEED)
        return Edited(apply(source, self._row, self._level, generator))


class OfTruth:
    """The true results that a rendered set has: the best that any editor could do."""

    name = key = TRUTH

    def edited(self, pair: Pair, source: Pixels) -> Edited:
        """Return the pair's target."""
        if pair.target is None:
            raise InvalidRequest(f"{pair.id!r} has no true result; leave out {TRUTH!r}")
        return Edited(read_pixels(pair.target))


def contestants_of(
    suite: Suite,
    presets: Sequence[str],
    operations: Sequence[str],
    settings: ServiceSettings,
    *,
    truth: bool,
) -> list[Contestant]:
    """Return the contestants by their names; refuses unknown ones before anything is made."""
    named: list[Contestant] = [OfPreset(suite, name, settings) for name in presets]
    named += [OfOperation(spec) for spec in operations]
    return [*named, *([OfTruth()] if truth else [])]
