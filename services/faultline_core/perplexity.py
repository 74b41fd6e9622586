"""Perplexity of a set of captions under a language model, from the likelihoods that the model gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.errors import NumericalFailure
from faultline_core.realism import Refused
from faultline_core.statistics import DRAWS, LEAST_SOURCES_FOR_BOOTSTRAP, Floats, bootstrap_mean
from faultline_core.types import Estimate

LEAST_CAPTIONS = LEAST_SOURCES_FOR_BOOTSTRAP

_ROUNDING = 1e-4
_LARGEST_LOGARITHM = 700.0
"""Of a float: e^710 is infinite."""
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Perplexity:
    """Perplexity (>= 1) per token of captions; its ``n`` counts what was resampled."""

    language_model: str
    perplexity: Estimate
    tokens: int


def perplexity(
    captions: Sequence[tuple[float, int]],
    generator: np.random.Generator,
    *,
    language_model: str,
    draws: int = DRAWS,
) -> Perplexity | Refused:
    """exp of the mean surprise of a token, each token of the set weighing 1 (LANCE, section 4.1).

    ``captions`` holds for each the sum of its tokens' log-likelihoods (nats, <= 0) and their number.
    Add up the captions of one source to one entry: they are dependent, and entries are resampled. The
    interval is the BCa bootstrap of the mean's logarithm, by its linearised entries. Refused below 20
    entries, and where all say the same. Only figures of one language model and tokenizer compare.

    Raises:
        NumericalFailure: a log-likelihood is not finite, or above 0.
        ValueError: a caption has no token.
    """
    table = _checked(captions)
    if len(table) < LEAST_CAPTIONS:
        reason = f"a perplexity needs {LEAST_CAPTIONS} captions, not {len(table)}"
        return Refused(reason, len(table), LEAST_CAPTIONS)
    surprise, tokens = -table[:, 0], table[:, 1]
    rate = surprise.sum() / tokens.sum()
    # What each entry adds to a ratio of sums (Cochran 1977, chapter 6); their mean is the ratio itself.
    parts = rate + (surprise - rate * tokens) / tokens.mean()
    if np.ptp(parts) <= _NO_SPREAD:
        return Refused("captions that all are equally likely give no interval", 1, LEAST_CAPTIONS)
    found = bootstrap_mean(list(parts), generator, bounds=(0.0, _LARGEST_LOGARITHM), draws=draws)
    return Perplexity(language_model, _exponential(found), int(tokens.sum()))


def _checked(captions: Sequence[tuple[float, int]]) -> Floats:
    table = np.array(captions, dtype=np.float64).reshape(-1, 2)
    if np.any(table[:, 1] < 1):
        raise ValueError("a caption has no token")
    if not np.all(np.isfinite(table)) or np.any(table[:, 0] > _ROUNDING * table[:, 1]):
        raise NumericalFailure("a caption's log-likelihood is not finite, or above 0")
    return table


def _exponential(figure: Estimate) -> Estimate:
    if figure.estimate is None or figure.low is None or figure.high is None:
        return figure
    return Estimate(
        estimate=math.exp(figure.estimate),
        low=math.exp(figure.low),
        high=math.exp(figure.high),
        n=figure.n,
    )
