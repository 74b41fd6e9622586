"""Coverage of confounding-error intervals over many simulated datasets."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.types import Estimate
from evaluation.interface_validity.confounding import confounding
from evaluation.tests.fakes.confounded_image_sources import image_sources


@pytest.mark.parametrize(("token", "class_name"), [(0.0, 0.3), (0.1, 0.1)])
def test_confounding_intervals_cover_the_true_errors_despite_noise(token: float, class_name: float) -> None:
    draw, covered = np.random.default_rng(2), np.zeros(3)
    for _ in range(200):
        table = image_sources(draw, token=token, class_name=class_name, images=20)
        found = confounding(table, draw, draws=200)
        covered += [
            holds(found.token_error, token),
            holds(found.class_name_error, class_name),
            holds(found.difference, token - class_name),
        ]
    # Where no error's sign is known the intervals allow for noise in either direction.
    assert np.all(covered / 200 >= 0.91)


def holds(figure: Estimate, truth: float) -> bool:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low <= truth <= figure.high
