"""A transfer with every option set, as the SDK starts it and as its request says."""

from __future__ import annotations

from typing import Any


def transfer(client: Any) -> Any:
    """Start a transfer with every option set."""
    return client.transfers.create(
        source="run-1",
        classifiers=["leaning-resnet"],
        criterion={"name": "not-in-top", "k": 3},
        images=300,
        seed=3,
        idempotency_key="mine",
    )


TRANSFERRED = {
    "source": "run-1", "classifiers": ["leaning-resnet"], "criterion": {"name": "not-in-top", "k": 3},
    "images": 300, "seed": 3,
}  # fmt: skip
