"""An adversarial dataset with every option set, as the SDK starts it and as its request says."""

from __future__ import annotations

from typing import Any


def adversarial(client: Any) -> Any:
    """Start an adversarial dataset with every option set."""
    return client.adversarial_datasets.create(
        classifiers=["leaning-resnet"],
        dataset="wild",
        seed_images=100,
        mistaken=False,
        fools="all",
        classes=["fly", "bee"],
        parents={"fly": "insect"},
        criterion={"name": "not-in-top", "k": 3},
        captions=20,
        sentences=1,
        samples=1000,
        most_kept=5,
        images=9000,
        baseline=32,
        near_duplicates=0.9,
        reference="real",
        reference_images=300,
        prompt="a photo of a <class>",
        steps=20,
        guidance=3.0,
        scheduler="DDIMScheduler",
        seed=3,
        idempotency_key="mine",
    )


ADVERSARIAL = {
    "classifiers": ["leaning-resnet"],
    "seeds": {"kind": "dataset", "dataset": "wild", "images": 100, "mistaken": False}, "fools": "all",
    "classes": ["fly", "bee"], "parents": {"fly": "insect"}, "criterion": {"name": "not-in-top", "k": 3},
    "captions": 20, "sentences": 1, "samples": 1000, "most_kept": 5, "images": 9000, "baseline": 32,
    "near_duplicates": 0.9, "reference": "real", "reference_images": 300, "prompt": "a photo of a <class>",
    "steps": 20, "guidance": 3.0, "scheduler": "DDIMScheduler", "seed": 3,
}  # fmt: skip
