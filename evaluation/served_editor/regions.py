"""Where the edits of a run with a region belong, and which of them nobody can judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpose_core.contract.regions import RegionOfEdits
from counterpose_core.images.masks import editable
from counterpose_core.preservation.arrays import grown
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import EditType, Estimate, Side
from counterpose_miniature.world.renderer import IMAGE_SIDE, object_mask, render
from counterpose_miniature.world.scene import Scene
from evaluation.preservation.planting import VISIBLE, difference
from evaluation.preservation.trials import TOUCHED
from evaluation.served_editor.figures import AIM, LEVEL, Pair, rate
from evaluation.served_editor.oracle import Question, mask_file
from evaluation.served_editor.plan import SEED
from evaluation.validity.aims import at_least, at_most

WITH_AIM = ("shift", "leak", "recolour", "over-edit")
"""The planted groups of which a share is to be refused."""


@dataclass(frozen=True)
class Region:
    """The edits of a run: on which side of the mask, of which types and attributes; ``seed`` of its plan."""

    side: Side
    edit_types: tuple[EditType, ...]
    attributes: tuple[str, ...]
    seed: int

    def allowed(self, scene: Scene) -> Mask:
        """Return where (H, W) a scene's image may change."""
        return editable(mask_file(scene), self.side, (IMAGE_SIDE, IMAGE_SIDE))

    def beyond(self, question: Question) -> str | None:
        """Return why the true counterfactual changes more than the region and a pixel's edge; None if not."""
        source, edited = render(question.before), render(question.after)
        stays = ~grown(self.allowed(question.before), 1)
        away = np.abs(source.astype(int) - edited).max(axis=-1) > TOUCHED
        if difference(source, edited, stays & away) < VISIBLE:
            return None
        others = [name for name in question.changes if name not in self.attributes]
        if others:
            return f"{others[0]} changes what lies elsewhere"
        before, after = (object_mask(scene) > 0 for scene in (question.before, question.after))
        if (stays & after & ~before).any():
            return "the object has another silhouette"
        if question.before.style != "photo":
            return f"the {question.before.style} spreads the change"
        return "a part of the object, or a gap in it, is narrower than a pixel"


REGIONS: Mapping[RegionOfEdits, Region] = {
    "object": Region("inside", ("subject", "adjective"), ("kind", "colour"), SEED + 1),
    "background": Region("outside", ("object", "background"), ("companion", "background"), SEED + 2),
}


def left_out(edits: Sequence[tuple[Pair, str | None]]) -> dict[str, Any]:
    """How many edits are left out, why, and what the gate does with those that the server obeyed."""
    out = [(pair, reason) for pair, reason in edits if reason is not None]
    asked = sorted({name for pair, _ in edits for name in pair.answer.changes})
    obeyed = [pair for pair, _ in out if pair.answer.group == "obeys" and pair.faults is not None]
    return {
        "edits": rate(reason is not None for _, reason in edits),
        "by reason": dict(Counter(reason for _, reason in out).most_common()),
        "by what was asked": {
            name: rate(reason is not None for pair, reason in edits if name in pair.answer.changes)
            for name in asked
        },
        "refused, of those as asked for": rate(pair.is_refused for pair in obeyed),
    }


def region_aims(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the targets of the runs with a region, and whether each was reached."""
    wanted = []
    for name, each in figures.items():
        gate, planted = each["gate"], each["planted in edits"]
        kept, false = (Estimate(**gate[figure]) for figure in ("kept without a fault", "false refusals"))
        wanted.append(at_least(f"region `{name}`: edits kept without a fault", kept, AIM))
        wanted.append(at_most(f"region `{name}`: right edits refused", false, LEVEL))
        for group in WITH_AIM:
            refused = Estimate(**planted[group]["refused for preservation"])
            wanted.append(at_least(f"region `{name}`: {group}, refused", refused, AIM))
    return [aim.model_dump() for aim in wanted]
