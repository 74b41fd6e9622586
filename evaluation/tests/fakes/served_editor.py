"""Items of a stress test on the server that plants faults, with what it did to their images."""

from __future__ import annotations

from typing import Any

from counterpose_core.contract.preservation import Preservation
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.served_images import ServedImage
from evaluation.served_editor.figures import Pair
from evaluation.served_editor.oracle import Answer

IMAGE = "a" * 64
BEFORE, AFTER = "a photo of a red bus on the road", "a photo of a blue bus on the road"


def item(
    kind: str = "edit", *, reason: str | None = None, faults: list[str] | None = None, seed: int = 1
) -> Item:
    told = None
    if faults is not None:
        told = Preservation.model_validate({"faults": faults, "size_ratio": (1.0, 1.0)})
    served = ServedImage(
        server="127.0.0.1",
        model="oracle",
        template="both-captions",
        seed=seed,
        answer=IMAGE,
        size=(64, 64),
        seconds=0.1,
        drift_from=(64, 64) if seed == 7 else None,
    )
    result = ItemResult(image=IMAGE, caption=BEFORE, edited_caption=AFTER, served=served, preservation=told)
    body = {"id": f"{kind}-{seed}", "ordinal": 0, "kind": kind, "item_group": "source", "label": "bus"}
    ended = {"source_image": IMAGE, "state": "filtered" if reason else "done", "reason": reason}
    return Item.model_validate(body | ended | {"result": result})


def pair(group: str, *, seen: bool = True, fault: str = "some", **about: Any) -> Pair:
    changes = {"colour": ("red", "blue")}
    return Pair(item(**about), Answer(IMAGE, group, fault, changes, seen))
