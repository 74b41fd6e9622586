"""What stands beside a verdict: an interval that never denies it, and the rule that left it open."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from counterpose_core.contract.findings import Confirmed
from counterpose_core.contract.stress_test_figures import Tested as CellTest
from counterpose_core.stress_test.confirmation import (
    ConfirmationTest,
    PairColumns,
    confirm,
    mean_loss,
    relabelled_p,
)
from counterpose_core.stress_test.decisions import (
    LEAST_TOLD,
    settle_zero,
    why_hint,
    why_undecided,
    zero_ruled_out,
)
from counterpose_core.types import Estimate
from fakes.findings import a_confirmation

Draw = Callable[[np.random.Generator, int], np.ndarray]
OPEN = Estimate(estimate=0.3, low=-0.2, high=0.6, n=9)


def settled(pairs: PairColumns, generator: np.random.Generator) -> tuple[ConfirmationTest, Estimate]:
    """A hypothesis of its own with the interval that is printed beside it."""
    (test,) = confirm([pairs], [False], [generator])
    ruled_out = zero_ruled_out(shown=test.confirmed, p_adjusted=test.p_adjusted)
    return test, settle_zero(mean_loss(pairs, generator), ruled_out=ruled_out)


@pytest.mark.parametrize(("shown", "p", "low"), [(True, 0.01, LEAST_TOLD), (False, 0.2, -0.2)])
def test_zero_is_in_the_interval_where_the_corrected_test_says_so(shown: bool, p: float, low: float) -> None:
    assert settle_zero(OPEN, ruled_out=zero_ruled_out(shown=shown, p_adjusted=p)).low == low
    clear = OPEN.model_copy(update={"low": 0.1})
    assert settle_zero(clear, ruled_out=zero_ruled_out(shown=shown, p_adjusted=p)).low == (
        0.1 if shown else 0.0
    )


def test_a_sure_loss_that_is_too_small_keeps_the_interval_that_says_so() -> None:
    sure = Estimate(estimate=0.03, low=0.01, high=0.04, n=40)
    assert settle_zero(sure, ruled_out=zero_ruled_out(shown=False, p_adjusted=0.001)) == sure


@pytest.mark.parametrize("redrawn", [False, True])
def test_no_proven_loss_stands_beside_an_interval_that_holds_0(redrawn: bool) -> None:
    """Of moderate losses relabelling proves most, while bets alone leave 0 open: the case of the audit."""
    generator, denied = np.random.default_rng(6), 0
    for _ in range(60):
        losses = generator.choice([0.0, 0.3, 0.6], 12)
        sources = [str(number // 3 if redrawn else number) for number in range(12)]
        pairs = PairColumns.of(sources, np.full(12, 0.9), 0.9 - losses, redrawn=redrawn)
        test, loss = settled(pairs, generator)
        assert loss.low is not None
        assert (loss.low > 0.0) is test.confirmed
        denied += test.confirmed and (mean_loss(pairs, generator).low or 0.0) <= 0.0
    assert denied > 20


def hits(share: float, low: float, high: float, other: float = 0.0) -> Draw:
    """A share of the images loses between two ends, and the others ``other``."""
    return lambda generator, n: np.where(generator.random(n) < share, generator.uniform(low, high, n), other)


@pytest.mark.parametrize("n", [8, 12, 20])
@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (hits(0.9, 0.9, 0.9), 0.81),
        (hits(0.8, 0.2, 0.5, -0.02), 0.276),
        (hits(1 / 12, 0.9, 0.9), 0.075),
        (lambda generator, n: generator.beta(1, 3, n), 0.25),
        (lambda generator, n: np.clip(generator.normal(0, 0.2, n), -1, 1), 0.0),
    ],
    ids=["most", "moderate", "rare", "skewed", "nothing"],
)
def test_the_interval_beside_a_verdict_covers_the_mean_of_skewed_losses(
    draw: Draw, mean: float, n: int
) -> None:
    generator, runs = np.random.default_rng(7), 400
    covered = 0
    for _ in range(runs):
        _, loss = settled(PairColumns.fresh(draw(generator, n)), generator)
        covered += (loss.low or 0.0) - 1e-9 <= mean <= (loss.high or 0.0) + 1e-9
    assert covered >= 0.93 * runs


def test_relabelling_shifted_to_other_losses_would_not_cover_and_is_not_used() -> None:
    """Of twelve images that all lose 0.9 the shifted test rules out 0.85, though 9 in 10 may lose."""
    losses, generator = np.full(12, 0.9), np.random.default_rng(8)
    assert relabelled_p(PairColumns.fresh(losses - 0.85), generator) <= 0.025
    _, loss = settled(PairColumns.fresh(losses), generator)
    assert (loss.low or 0.0) < 0.81


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (
            {"p": 1.0, "p_adjusted": 1.0, "stopped": True},
            "it was given up after 12 pairs, whose mean loss was",
        ),
        (
            {"p": 0.1, "p_adjusted": 0.2},
            "p must be at most 0.05 after the correction, so the interval holds 0",
        ),
        (
            {"p": 0.02, "p_adjusted": 0.1, "n_pairs": 5},
            "there are too few pairs, 5 of at least 7: with 4 changes tested, p must be at most 0.05",
        ),
        ({"p_adjusted": 0.4, "e_value": 2.5}, "the evidence is 2.5, and a proof takes 80, so the interval"),
        (
            {"loss": Estimate(estimate=0.03, low=0.01, high=0.2, n=9)},
            "a mean loss below 0.05 counts for nothing",
        ),
        ({"scope": "images"}, "at least 2 of the images, and 60 % of them, must lose 0.10 or more"),
        (
            {"loss": Estimate(estimate=None, low=None, high=None, n=0)},
            "none of 14 planned pairs was kept.",
        ),
    ],
)
def test_an_undecided_test_names_the_rule_that_failed(test: dict[str, object], why: str) -> None:
    assert why_undecided(a_confirmation(**test)).startswith(why)


def test_what_it_takes_to_hold_is_told_where_it_fails() -> None:
    small: Confirmed = a_confirmation(loss=Estimate(estimate=0.03, low=0.01, high=0.04, n=9))
    assert "Nor does it hold" not in why_undecided(small)
    assert "Nor does it hold: that takes a loss of 0.10 to be ruled out." in why_undecided(a_confirmation())


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ({}, "no placebo was kept to compare it with."),
        ({"p": 0.1, "sources_needed": 9}, "too few images, 4 of at least 9."),
        (
            {"p": 0.1, "p_adjusted": 0.3, "family_size": 7},
            "p must be at most 0.10 after the correction over 7",
        ),
        (
            {
                "p": 0.001,
                "p_adjusted": 0.002,
                "beyond_controls": Estimate(estimate=0.04, low=0.01, high=0.1, n=9),
            },
            "a mean loss below 0.05 counts for nothing.",
        ),
        (
            {"p": 0.001, "p_adjusted": 0.002, "beyond_controls": OPEN},
            "the interval of the loss, or of the fall",
        ),
    ],
)
def test_a_hint_names_the_rule_by_which_it_is_not_shown(test: dict[str, object], why: str) -> None:
    assert why_hint(CellTest.model_validate(test), 4, 0.10).startswith(why)
