"""Scenes, edits and classifiers with known drops, for the figures of `make validate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import Insight
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import EditType, Estimate, ItemKind
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.grammar import caption
from counterpose_miniature.world.scene import Scene
from evaluation.validity.changes import Change
from evaluation.validity.contestants import Contestant
from evaluation.validity.judging import Judgement
from evaluation.validity.truth import COLUMNS, Truth

BOAT_BY_ITS_WATER = Bug(
    id="boat-leans-on-water",
    object_class="boat",
    edit_type="background",
    attribute="background",
    value="water",
    mode="leans-on",
    target_class="sled",
    strength=0.6,
)


def scene(object_class: str = "boat", nuisance: int = 0, **values: str) -> Scene:
    """A plain red object on the water, in a clear photo, alone, with ``values`` instead."""
    plain = {
        "kind": "plain",
        "colour": "red",
        "background": "water",
        "weather": "clear",
        "style": "photo",
        "companion": "none",
    }
    return Scene(object_class=object_class, nuisance=nuisance, **(plain | values))


def truth(scenes: Sequence[Scene], p: Mapping[tuple[str, str], float], *, otherwise: float = 0.9) -> Truth:
    """A classifier with the given p(true class) for an attribute's value, and ``otherwise`` for others."""
    row = [p.get(column, otherwise) for column in COLUMNS]
    return Truth(scenes, np.array([row for _ in scenes]))


def prediction(p_true: float, *, right: bool = True) -> Scored:
    """A prediction with p(true class)."""
    return ranked(p_true, 1 if right else 2, [])


def change(source: int = 0, *, drops: Mapping[str, float] | None = None, **changes: object) -> Change:
    """A kept edit that moves a boat from the water onto the grass and lowers p(true class) by ``drops``."""
    drops = drops if drops is not None else {"model": 0.6}
    known: dict[str, object] = {
        "item": f"item-{source}",
        "source": source,
        "object_class": "boat",
        "edit_type": "background",
        "attribute": "background",
        "removed": "water",
        "added": "grass",
        "kept": True,
        "before": {name: prediction(0.9) for name in drops},
        "after": {name: prediction(0.9 - drop) for name, drop in drops.items()},
    }
    return Change(**(known | changes))  # type: ignore[arg-type]  # a dictionary of fields


def item(
    before: Scene,
    after: Scene | None = None,
    *,
    name: str = "item",
    kind: ItemKind = "edit",
    edit_type: EditType | None = "background",
    image: str = "a" * 64,
    state: str = "done",
    p: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {}),
) -> Item:
    """An item whose captions say ``before`` and ``after``; ``p`` is p(true class) before and after."""
    result = ItemResult(
        image=image,
        caption=caption(before),
        edited_caption=None if after is None else caption(after),
        original_predictions={key: prediction(value, right=value > 0.5) for key, value in p[0].items()},
        predictions={key: prediction(value, right=value > 0.5) for key, value in p[1].items()},
    )
    return Item.model_validate(
        {
            "id": name,
            "ordinal": 0,
            "kind": kind,
            "item_group": f"source-{before.nuisance}",
            "source_image": "b" * 64,
            "label": before.object_class,
            "edit_type": edit_type,
            "state": state,
            "reason": "gate-direction" if state == "filtered" else None,
            "result": result,
        }
    )


def insight(
    removed: str = "on the water",
    added: str = "",
    *,
    classifier: str = "model",
    object_class: str = "boat",
    edit_type: str = "background",
    significant: bool = True,
) -> Insight:
    """An insight in words, with an effect of -0.6."""
    return Insight(
        classifier=classifier,
        object_class=object_class,
        edit_type=edit_type,
        removed=removed,
        added=added,
        delta_p=Estimate(estimate=-0.6, low=-0.7, high=-0.5, n=30),
        example_item="item-0",
        sentence="",
        significant=significant,
    )


def judgement(
    *, good: bool = True, kept: bool = True, source: str = "s", edit_type: str = "background"
) -> Judgement:
    """A judgement of an edit that is right in everything, or that changed something else too."""
    return Judgement(
        source=source,
        edit_type=edit_type,
        kept=kept,
        text_success=True,
        success=True,
        fidelity=good,
        label=True,
        scores={},
    )


def contestant(name: str, *bugs: Bug) -> Contestant:
    """A classifier without a folder."""
    return Contestant(name, Path(name), bugs)
