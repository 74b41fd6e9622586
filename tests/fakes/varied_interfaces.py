"""A dataset interface whose classes ended in every way, with figures drawn at random."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from typing import Any

import numpy as np

from counterpose_core.contract.dataset_interfaces import TokenItem
from counterpose_core.contract.runs import RequestCounts, Run
from fakes.benchmarks import interface_config

LEARNED, UNLEARNED = 5, 4
ENDS: tuple[dict[str, Any], ...] = (
    {"state": "failed", "code": "dataset-empty", "detail": "no image can be read"},
    {"state": "cancelled"},
    {"state": "pending"},
    {"state": "leased"},
)


def varied_interface(seed: int) -> tuple[Run, list[TokenItem]]:
    """An interface of some learned classes, of some that were not, and of one without images."""
    draws = np.random.default_rng(seed)
    names = [f"class {number}" for number in range(LEARNED + UNLEARNED)]
    items = [_item(names[place], place, draws) for place in draws.permutation(len(names)).tolist()]
    config = interface_config("demo", names).model_copy(update={"without_images": ["ghost"]})
    states = Counter[str](item.state for item in items)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    counts = RequestCounts(
        total=len(items), pending=states["pending"] + states["leased"], done=states["done"], filtered=0,
        failed=states["failed"], cancelled=states["cancelled"],
    )  # fmt: skip
    run = Run(
        id="run-1", kind="dataset-interface", state="in_progress", dataset="demo", created_at=start,
        request_counts=counts, resolved_config=config.model_dump(mode="json"),
    )  # fmt: skip
    return run, items


def _item(label: str, place: int, draws: np.random.Generator) -> TokenItem:
    known: dict[str, Any] = {
        "id": f"run-1.{place}", "ordinal": place, "kind": "token", "item_group": "together",
        "source_image": "a" * 64, "label": label, "slot": 0,
    }  # fmt: skip
    if place >= LEARNED:
        return TokenItem.model_validate(known | ENDS[place - LEARNED])
    return TokenItem.model_validate(known | {"state": "done", "result": _result(label, draws)})


def _result(label: str, draws: np.random.Generator) -> dict[str, Any]:
    def estimate() -> dict[str, Any]:
        middle = float(draws.random())
        return {"estimate": middle, "low": middle - 0.1, "high": middle + 0.1, "n": 8}

    return {
        "token": hashlib.sha256(label.encode()).hexdigest(), "initialiser": label, "steps": 4,
        "losses": draws.random(4).tolist(), "n_images": 12, "object_similarity": estimate(),
        "resemblance": estimate(), "name_resemblance": estimate() if draws.random() < 0.7 else None,
        "cost": {"unet_evaluations": int(draws.integers(100)), "seconds": float(draws.random())},
        "models": {"editor": "sd@1"}, "service_seconds": {"editor": float(draws.random())},
    }  # fmt: skip
