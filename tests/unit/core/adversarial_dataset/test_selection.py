"""The choice among failures: a cap for each caption, and nothing that nearly repeats what is kept."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.adversarial_dataset.selection import choose_failures


def at(angle: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A unit vector at an angle in degrees."""
    return np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])


def test_an_image_near_a_kept_one_is_dropped_and_one_near_a_dropped_one_is_not() -> None:
    near = float(np.cos(np.radians(6)))
    features = [at(angle) for angle in (0.0, 5.0, 10.0, 90.0)]
    choices = choose_failures(features, [1] * 4, most_kept=9, near_duplicate=near)
    assert choices == ["kept", "near-duplicate", "kept", "kept"]


def test_the_cap_counts_kept_images_of_each_caption_alone() -> None:
    features = [at(angle) for angle in (0.0, 0.1, 40.0, 80.0, 120.0)]
    choices = choose_failures(features, [1, 1, 1, 1, 2], most_kept=2, near_duplicate=0.999)
    assert choices == ["kept", "near-duplicate", "kept", "over-cap", "kept"]


def test_without_a_threshold_or_features_nothing_repeats() -> None:
    assert choose_failures([at(0.0)] * 3, [1] * 3, most_kept=9, near_duplicate=None) == ["kept"] * 3
    assert choose_failures([None] * 3, [1] * 3, most_kept=9, near_duplicate=0.5) == ["kept"] * 3
    assert choose_failures([], [], most_kept=9, near_duplicate=0.5) == []


@pytest.mark.parametrize("n", [700, 1300])
def test_blocks_change_nothing(n: int) -> None:
    generator = np.random.default_rng(n)
    features = generator.standard_normal((n, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    kept: list[int] = []
    for place in range(n):
        if not kept or float((features[kept] @ features[place]).max()) < 0.99:
            kept.append(place)
    choices = choose_failures(list(features), [1] * n, most_kept=n, near_duplicate=0.99)
    assert [place for place, choice in enumerate(choices) if choice == "kept"] == kept
