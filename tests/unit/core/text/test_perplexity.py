"""Perplexity of captions on known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.errors import NumericalFailure
from counterpose_core.images.realism import Refused
from counterpose_core.text.perplexity import Perplexity, perplexity

Captions = list[tuple[float, int]]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def captions(n: int = 40, seed: int = 0, surprise: float = 3.0) -> Captions:
    """``n`` captions of 6 to 19 tokens; a token is ``surprise`` nats on average, whatever the length."""
    drawn = generator(seed)
    lengths = drawn.integers(6, 20, n)
    totals = -lengths * drawn.gamma(9.0, surprise / 9.0, n)
    return [(float(total), int(length)) for total, length in zip(totals, lengths, strict=True)]


def measured(given: Captions, seed: int = 0, draws: int = 200) -> Perplexity:
    found = perplexity(given, generator(seed), language_model="lm", draws=draws)
    assert isinstance(found, Perplexity)
    return found


def ends(found: Perplexity) -> tuple[float, float]:
    assert found.perplexity.low is not None
    assert found.perplexity.high is not None
    return found.perplexity.low, found.perplexity.high


def test_each_token_has_equal_weight() -> None:
    halves = [(-10 * math.log(2), 10)] * 15
    eighths = [(-30 * math.log(8), 30)] * 5
    found = measured(halves + eighths)
    assert found.perplexity.estimate == pytest.approx(2 ** ((15 * 10 * 1 + 5 * 30 * 3) / 300))
    assert (found.tokens, found.perplexity.n) == (300, 20)


def test_less_likely_captions_have_higher_perplexity() -> None:
    assert ends(measured(captions(surprise=2.0)))[1] < ends(measured(captions(surprise=3.0)))[0]


def test_the_interval_covers_the_truth_in_most_draws() -> None:
    found = [ends(measured(captions(seed=seed), seed)) for seed in range(40)]
    assert 34 <= sum(low <= math.exp(3.0) <= high for low, high in found) <= 40


def test_the_interval_narrows_with_more_captions() -> None:
    widths = [high - low for low, high in (ends(measured(captions(n))) for n in (30, 300))]
    assert widths[1] < 0.5 * widths[0]


def test_the_language_model_is_named_in_the_result() -> None:
    assert measured(captions()).language_model == "lm"


def test_the_order_of_captions_does_not_matter() -> None:
    turned = measured(captions()[::-1]).perplexity.estimate
    assert turned == pytest.approx(measured(captions()).perplexity.estimate)


def test_the_same_generator_gives_the_same_interval() -> None:
    first, again, other = (measured(captions(), seed) for seed in (3, 3, 4))
    assert first == again != other


def test_certain_captions_have_a_perplexity_of_1() -> None:
    """A model's rounding may take a sum of logarithms a little above 0."""
    found = measured([(1e-5 * (number % 2), 5) for number in range(30)])
    assert found.perplexity.estimate == 1.0
    assert ends(found) == (1.0, 1.0)


def test_fewer_than_20_captions_are_refused() -> None:
    found = perplexity(captions(19), generator(), language_model="lm")
    assert found == Refused("a perplexity needs 20 captions, not 19", n=19, least=20)
    assert isinstance(perplexity([], generator(), language_model="lm"), Refused)


def test_captions_that_are_all_equally_likely_are_refused() -> None:
    found = perplexity([(-12.0, 4)] * 30, generator(), language_model="lm")
    assert isinstance(found, Refused)
    assert "equally likely" in found.reason


@pytest.mark.parametrize("total", [math.nan, -math.inf, math.inf, 0.5])
def test_impossible_likelihoods_are_an_error(total: float) -> None:
    with pytest.raises(NumericalFailure, match="not finite or is above 0"):
        perplexity([*captions(), (total, 5)], generator(), language_model="lm")


def test_a_caption_without_tokens_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token"):
        perplexity([*captions(), (0.0, 0)], generator(), language_model="lm")
