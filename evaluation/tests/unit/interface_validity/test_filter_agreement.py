"""A filter is compared with the oracle by precision and recall."""

from __future__ import annotations

import pytest

from evaluation.interface_validity.filter_figures import filter_agreement


def test_a_filter_is_judged_by_precision_and_recall() -> None:
    found = filter_agreement([1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 1, 0, 0, 0])
    assert (found.before.estimate, found.before.n) == (0.5, 8)
    assert found.precision.estimate == pytest.approx(2 / 3)
    assert found.precision.n == 3
    assert (found.recall.estimate, found.recall.n) == (0.5, 4)
