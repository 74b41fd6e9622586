"""A bug hunt with every option set, as the SDK starts it and as its request says."""

from __future__ import annotations

from typing import Any


def hunt(client: Any) -> Any:
    """Start a bug hunt with every option set."""
    return client.bug_hunts.create(
        classifiers=["leaning-resnet"],
        labels=["fly"],
        descriptions=["a photo of a fly at night"],
        budget={"images": 500, "minutes": 15},
        classes=["fly", "bee"],
        parents={"fly": "insect"},
        criterion={"name": "taken-for", "target": "bee"},
        sampling={"name": "inverse", "failures": 10},
        hypotheses=4,
        winners=1,
        held_out=64,
        refine=16,
        vary=0.5,
        clusters="features",
        words="both",
        sentences=3,
        captions=16,
        mentions=8,
        mixture={"images": 40, "components": [{"prompt": "a photo of a <class> in the fog", "share": 0.1}]},
        prompt="a photo of a <class>",
        steps=20,
        guidance=3.0,
        scheduler="DDIMScheduler",
        seed=3,
        idempotency_key="mine",
    )


HUNTED = {
    "classifiers": ["leaning-resnet"], "labels": ["fly"],
    "descriptions": ["a photo of a fly at night"], "budget": {"images": 500, "minutes": 15.0},
    "classes": ["fly", "bee"], "parents": {"fly": "insect"},
    "criterion": {"name": "taken-for", "target": "bee"},
    "sampling": {"name": "inverse", "failures": 10}, "hypotheses": 4, "winners": 1, "held_out": 64,
    "refine": 16, "vary": 0.5, "clusters": "features", "words": "both", "sentences": 3, "captions": 16,
    "mentions": 8,
    "mixture": {"images": 40, "components": [{"prompt": "a photo of a <class> in the fog", "share": 0.1}]},
    "prompt": "a photo of a <class>", "steps": 20, "guidance": 3.0,
    "scheduler": "DDIMScheduler", "seed": 3,
}  # fmt: skip
