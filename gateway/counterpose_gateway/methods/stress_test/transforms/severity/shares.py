"""What becomes of each image of an adaptive plan, by the run's seed and the image's group."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.severity.draw import Share, share_of
from counterpose_gateway.runs.seeds import derive_seed


def share(config: StressTestConfig, source: str) -> Share:
    """Return what becomes of an image, the same for all of its group; `full` where nothing is adaptive."""
    plan = config.transforms
    if plan is None or plan.severity is None or not plan.is_adaptive:
        return "full"
    group = config.groups.get(source, source)
    generator = np.random.default_rng(derive_seed(config.request.seed, "severity", group))
    return share_of(generator, plan.severity.full_share)


def has_every_level(config: StressTestConfig, source: str) -> bool:
    """Whether every level of an image is asked from the start."""
    return share(config, source) == "full"
