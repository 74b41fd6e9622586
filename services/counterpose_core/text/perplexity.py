"""Perplexity of a set of captions under a language model, computed from their log-likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.errors import NumericalFailure
from counterpose_core.images.realism import Refused
from counterpose_core.statistics.bootstrap import DRAWS, LEAST_SOURCES_FOR_BOOTSTRAP, Floats, bootstrap_mean
from counterpose_core.types import Estimate

LEAST_CAPTIONS = LEAST_SOURCES_FOR_BOOTSTRAP

_ROUNDING = 1e-4
_LARGEST_LOGARITHM = 700.0
"""Near the largest exponent of a float: e^710 is infinite."""
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Perplexity:
    """Perplexity per token (>= 1) of captions; its ``n`` counts the resampled entries."""

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
    """Return exp of the mean negative log-likelihood of a token, all tokens equally weighted (LANCE, 4.1).

    The interval is the BCa bootstrap of the logarithm of the mean, on its linearised entries. The result is
    `Refused` for fewer than 20 entries, or if all entries are equally likely. Only perplexities of the same
    language model and tokenizer are comparable.

    Args:
        captions: for each entry, the sum of its tokens' log-likelihoods (nats, <= 0) and their number (>= 1).
            Entries are resampled as independent, so add up the captions of one source into one entry.
        generator: draws the bootstrap.
        language_model: the name of the model, for the result.
        draws: the number of bootstrap draws.

    Raises:
        NumericalFailure: a log-likelihood is not finite or is above 0.
        ValueError: a caption has no token.
    """
    table = _checked(captions)
    if len(table) < LEAST_CAPTIONS:
        reason = f"a perplexity needs {LEAST_CAPTIONS} captions, not {len(table)}"
        return Refused(reason, len(table), LEAST_CAPTIONS)
    surprise, tokens = -table[:, 0], table[:, 1]
    rate = surprise.sum() / tokens.sum()
    # The contribution of each entry to a ratio of sums (Cochran 1977, chapter 6); their mean is the ratio.
    parts = rate + (surprise - rate * tokens) / tokens.mean()
    if np.ptp(parts) <= _NO_SPREAD:
        return Refused("captions that all are equally likely give no interval", 1, LEAST_CAPTIONS)
    found = bootstrap_mean(list(parts), generator, bounds=(0.0, _LARGEST_LOGARITHM), draws=draws)
    return Perplexity(language_model, _exponential(found), int(tokens.sum()))


def _checked(captions: Sequence[tuple[float, int]]) -> Floats:
    table = np.array(captions, dtype=np.float64).reshape(-1, 2)
    if np.any(table[:, 1] < 1):
        raise ValueError(
            f"caption {int(np.argmax(table[:, 1] < 1))} of {len(table)} has no token; leave it out"
        )
    bad = ~np.isfinite(table).all(axis=1) | (table[:, 0] > _ROUNDING * table[:, 1])
    if bad.any():
        first = int(np.argmax(bad))
        raise NumericalFailure(
            f"the log-likelihood {float(table[first, 0])!r} of caption {first} of {len(table)} is not finite "
            "or is above 0; check the language model"
        )
    return table


def _exponential(figure: Estimate) -> Estimate:
    if figure.estimate is None or figure.low is None or figure.high is None:
        return figure
    return Estimate(
        estimate=math.exp(figure.estimate), low=math.exp(figure.low), high=math.exp(figure.high), n=figure.n
    )
