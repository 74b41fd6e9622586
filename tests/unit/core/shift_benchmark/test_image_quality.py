"""Image quality by CLIP."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.shift_benchmark.image_quality import image_source_quality


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_source_is_summarised_by_both_similarities_and_its_pass_rate() -> None:
    draw = generator()
    found = image_source_quality(
        draw.normal(0.3, 0.02, 50), draw.normal(0.15, 0.02, 50), [True] * 40 + [False] * 10, draw
    )
    assert found.to_object.estimate == pytest.approx(0.3, abs=0.01)
    assert found.to_shift.estimate == pytest.approx(0.15, abs=0.01)
    assert (found.passed.estimate, found.passed.n) == (0.8, 50)
