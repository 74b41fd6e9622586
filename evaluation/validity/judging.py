"""What the oracle sees in generated images, compared with what their captions asked for."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter
from tqdm import tqdm

from counterpose_core.contract.runs import Item
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.scene import Scene

Seen = Mapping[str, str]
"""Attribute values that a judge sees in an image."""

SeenById = dict[str, dict[str, str]]
"""Attribute values by the name of an image or an item."""

SEEN = TypeAdapter(SeenById)

Look = Callable[[NDArray[np.uint8]], Sequence[Seen]]
"""A judge of images uint8 [N, 64, 64, 3]."""


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one generated image."""

    source: str
    edit_type: str
    kept: bool
    text_success: bool
    success: bool
    fidelity: bool
    label: bool
    scores: dict[str, float | None]

    @property
    def good(self) -> bool:
        """Whether it is the requested counterfactual: right change, nothing else changed, class kept."""
        return self.success and self.fidelity and self.label


def changed_attributes(caption: str, edited: str) -> dict[str, str]:
    """Attributes whose value differs between two captions, with the new values."""
    before, after = parse(caption), parse(edited)
    return {name: value for name, value in after.items() if before.get(name) != value}


class EditVerdict(NamedTuple):
    """Whether the change is right, nothing else changed, and the class is kept."""

    success: bool
    fidelity: bool
    label: bool


def verdict(caption: str, edited: str, truth: Mapping[str, str], seen: Seen) -> EditVerdict:
    """Compare what was seen in an image with its captions and the ``truth`` about its source."""
    changes = changed_attributes(caption, edited)
    others = {name: value for name, value in truth.items() if name not in changes}
    return EditVerdict(
        success=bool(changes) and all(seen.get(name) == value for name, value in changes.items()),
        fidelity=all(seen.get(name) == value for name, value in others.items()),
        label=seen.get("object_class") == truth["object_class"],
    )


def judge(item: Item, scene: Scene, seen: Seen) -> Judgement:
    """Compare what was seen in an image with what it should show."""
    assert item.result is not None
    caption, edited = item.result.caption, item.result.edited_caption or item.result.caption
    return Judgement(
        source=item.item_group,
        edit_type=item.edit_type if item.kind == "edit" and item.edit_type else item.kind,
        kept=item.state == "done",
        text_success=len(changed_attributes(caption, edited)) == 1,
        scores={} if item.result.scores is None else item.result.scores.model_dump(),
        **verdict(caption, edited, scene.attributes(), seen)._asdict(),
    )


def decoded(png: bytes) -> NDArray[np.uint8]:
    """PNG bytes as uint8 (H, W, 3)."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def seen_in(fetch: Callable[[str], bytes], items: Sequence[Item], look: Look) -> dict[str, dict[str, Any]]:
    """What the judge sees in each item's image, by item id."""
    made = [item for item in items if item.result is not None]
    images = [decoded(fetch(item.result.image)) for item in tqdm(made, desc="fetch") if item.result]
    seen = look(np.stack(images)) if images else []
    return {item.id: dict(one) for item, one in zip(made, seen, strict=True)}


def judged(
    items: Sequence[Item], scenes: Mapping[str, Scene], seen: Mapping[str, Seen]
) -> dict[str, Judgement]:
    """Judgements by item id; ``scenes`` by the name of the source's image."""
    return {
        item.id: judge(item, scenes[item.source_image], seen[item.id]) for item in items if item.id in seen
    }
