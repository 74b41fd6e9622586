"""Proofs: the evidence of several runs joined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.stress_test.confirmation import MARGIN, e_value
from counterpose_core.stress_test.proof import join

STRONG = [0.6] * 10


def test_evidence_multiplies_over_runs() -> None:
    joined = join([STRONG[:4], [], STRONG], family=4)
    assert joined.e_values == [e_value(STRONG[:4]), 1.0, e_value(STRONG)]
    assert joined.e_value == pytest.approx(e_value(STRONG[:4]) * e_value(STRONG))
    assert joined.loss.n == 14


def test_a_finding_is_proven_when_its_evidence_holds_for_the_whole_family() -> None:
    few, many = join([STRONG], family=1), join([STRONG], family=1000)
    assert [few.needed, many.needed] == pytest.approx([20.0, 20_000.0])
    assert (few.proven, many.proven) == (True, False)
    assert few.p == many.p == pytest.approx(1 / e_value(STRONG))
    assert many.p_adjusted == pytest.approx(min(1.0, 1000 * many.p))
    assert few.proven == (few.p_adjusted <= 0.05)


def test_a_loss_too_small_to_matter_is_not_proven_however_sure() -> None:
    sure = join([[0.04] * 2000], family=1)
    assert sure.e_value > sure.needed
    assert not sure.proven


def test_a_loss_must_be_shown_to_exceed_the_least_loss() -> None:
    losses = ([0.0] * 11 + [1.0]) * 25
    plain, against = join([losses], family=10), join([losses], family=10, least=0.05)
    assert (plain.proven, against.proven) == (True, False)
    assert against.loss == plain.loss
    assert join([STRONG], family=1, least=0.05).proven


def test_a_loss_of_the_margin_is_ruled_out_by_many_pairs_without_one() -> None:
    assert join([[0.0] * 60], family=9).absent
    assert not join([[0.0] * 8], family=9).absent
    assert not join([[MARGIN] * 200], family=9).absent


def test_without_pairs_there_is_no_evidence() -> None:
    for joined in (join([], family=3), join([[], []], family=3)):
        assert (joined.e_value, joined.p, joined.loss.estimate, joined.loss.n) == (1.0, 1.0, None, 0)
        assert not joined.proven
        assert not joined.absent


def test_evidence_stays_a_number_that_json_can_hold() -> None:
    assert math.isfinite(join([[1.0] * 100] * 50, family=1).e_value)
    assert math.isfinite(join([[-1.0] * 100] * 50, family=1).absence)


def test_the_interval_of_a_loss_holds_at_any_stop() -> None:
    """A user who stops at the worst moment still sees intervals that cover: 95 % over all looks together."""
    generator, runs, missed = np.random.default_rng(3), 60, 0
    for _ in range(runs):
        losses = generator.choice([-0.2, 0.8], p=[0.7, 0.3], size=60)
        looks = (join([losses[:n]], family=1).loss for n in range(10, 61, 10))
        missed += any(not (each.low or 0.0) <= 0.1 <= (each.high or 0.0) for each in looks)
    assert missed <= 7
