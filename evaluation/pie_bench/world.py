"""A set of the rendered world in PIE-Bench's format, with true masks and true targets.

    python -m evaluation.pie_bench.world FOLDER [--pairs 700]

Its types have PIE-Bench's proportions; those that the world has not are named in ``world.json`` and left out.
Scenes are validation scenes, on which no model, preset or threshold was chosen.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from tqdm import tqdm

from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import EDIT_TYPES, Edit, edits, phrase
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import VALIDATION, scene_for
from counterpose_miniature.world.wording import TEMPLATES
from evaluation.pie_bench.data import IMAGES, MAPPING, TARGETS, TYPES, WORLD, encoded
from evaluation.preservation.planting import VISIBLE, difference
from evaluation.preservation.trials import region_of_attribute

FIRST = 7_000_000
"""Index of the first validation scene."""
_STREAM = 0x91E
_WHOLE = ("style", "weather")
"""Changes of all of an image, whose mask is all of it, as PIE-Bench has it for its styles."""

MISSING: Mapping[str, str] = MappingProxyType(
    {"5": "objects of the world have no pose", "7": "objects of the world have no material"}
)
"""Why the world lacks a type."""


def _is_of(type_id: str, edit: Edit) -> bool:
    name, without = edit.attribute, "none" in (edit.old, edit.new)
    return {
        "0": True,
        "1": name == "object_class" or (name == "companion" and not without),
        "2": name == "companion" and edit.old == "none",
        "3": name == "companion" and edit.new == "none",
        "4": name == "kind",
        "6": name == "colour",
        "8": name == "background",
        "9": name == "style",
    }[type_id]


@dataclass(frozen=True)
class Made:
    """A pair of the world: the scene, its edit, both renderings, and where they may differ."""

    type_id: str
    scene: Scene
    edit: Edit
    source: Pixels
    target: Pixels
    mask: Mask


def numbers(pairs: int) -> dict[str, int]:
    """Return how many pairs of each type the world has a set of, in PIE-Bench's proportions."""
    shares = {name: kind.pairs for name, kind in TYPES.items() if name not in MISSING}
    exact = {name: pairs * share / sum(shares.values()) for name, share in shares.items()}
    whole = {name: int(number) for name, number in exact.items()}
    largest = sorted(exact, key=lambda name: whole[name] - exact[name])
    for name in largest[: pairs - sum(whole.values())]:
        whole[name] += 1
    return whole


def made(wanted: Mapping[str, int], skipped: Counter[str]) -> Iterator[Made]:
    """Yield the pairs of each type; what no eye would see is counted in ``skipped`` by its reason."""
    index = FIRST
    for type_id, number in wanted.items():
        done = 0
        while done < number:
            pair = _drawn(type_id, scene_for(VALIDATION, index, DATASET), skipped)
            index += 1
            if pair is not None:
                done += 1
                yield pair


def _drawn(type_id: str, scene: Scene, skipped: Counter[str]) -> Made | None:
    generator = np.random.default_rng([scene.nuisance, _STREAM])
    template = int(generator.integers(len(TEMPLATES)))
    fitting = [edit for kind in EDIT_TYPES for edit in edits(scene, kind, template) if _is_of(type_id, edit)]
    if not fitting:
        skipped["the scene has nothing to change in this way"] += 1
        return None
    # The attribute first, as some have many more values than others.
    attributes = sorted({edit.attribute for edit in fitting})
    attribute = attributes[int(generator.integers(len(attributes)))]
    alike = [edit for edit in fitting if edit.attribute == attribute]
    edit = alike[int(generator.integers(len(alike)))]
    source, target = render(scene), render(edit.scene_after)
    mask = region_of_attribute(attribute, scene, edit.scene_after, source, target)
    mask = np.ones_like(mask) if attribute in _WHOLE else mask
    if difference(source, target, mask) < VISIBLE:
        skipped["the change is not seen"] += 1
        return None
    return Made(type_id, scene, edit, source, target, mask)


def _instruction(edit: Edit) -> str:
    label = edit.scene_after.object_class
    words = (phrase(edit.attribute, value, label) for value in (edit.old, edit.new))
    old, new = (text.removeprefix("next to ") for text in words)
    if not (old and new):
        return f"Remove {old}" if old else f"Add {new}"
    return f"Change {old} to {new}"


def write(folder: Path, pairs: int) -> dict[str, Any]:
    """Write the set, and return what ``world.json`` says of it."""
    wanted, skipped = numbers(pairs), Counter[str]()
    entries: dict[str, Any] = {}
    for pair in tqdm(made(wanted, skipped), total=pairs, disable=None):
        name = f"{pair.type_id}{len(entries):011}"
        where = f"{pair.type_id}_{TYPES[pair.type_id].name}_{wanted[pair.type_id]}/{name}.png"
        for part, image in ((IMAGES, pair.source), (TARGETS, pair.target)):
            file = folder / part / where
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode_png(image))
        entries[name] = {
            "image_path": where,
            "original_prompt": pair.edit.caption,
            "editing_prompt": pair.edit.edited_caption,
            "editing_instruction": _instruction(pair.edit),
            "editing_type_id": pair.type_id,
            "blended_word": "",
            "mask": encoded(pair.mask),
        }
    about = {
        "pairs": wanted,
        "missing": {name: f"{TYPES[name].words}: {reason}" for name, reason in MISSING.items()},
        "skipped_scenes": dict(skipped),
        "split": VALIDATION.name,
        "first": FIRST,
    }
    # Last, so that a set that is cut short is none.
    (folder / WORLD).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    (folder / MAPPING).write_text(json.dumps(entries) + "\n", encoding="utf-8")
    return about


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where to write it")
    parser.add_argument("--pairs", type=int, default=700, help="number of pairs")
    given = parser.parse_args(arguments)
    write(given.folder, given.pairs)


if __name__ == "__main__":
    main()
