"""P-values by relabelling the images of sources, and corrections over a family of hypotheses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from counterpose_core.statistics.bootstrap import Flags, Floats
from counterpose_core.statistics.many_sources import MANY_RELABELLED, relabelling_p

FLIPS = 20_000
"""The smallest p is 1 / 20,001, enough for the first step of Benjamini-Hochberg over 2,000 hypotheses."""

_MOST_EXACT = 2**14
"""Up to so many labellings are tried one by one."""

_BLOCK = 4_000_000
"""The largest number of table look-ups held at once."""

_PARTS = 16
_ROUNDING = 1e-9
_BYTE = 256


def sign_flip_p(
    values: ArrayLike,
    generator: np.random.Generator,
    *,
    relabelled: Sequence[Floats] = (),
    draws: int = FLIPS,
) -> float:
    """Return the one-sided p of "the sum over sources is not above 0", by flipping signs; never 0.

    The test is exact up to 2^14 labellings, and uses random draws otherwise, or those of `relabelling_p` for
    more than 512 sources. It is not scipy's
    permutation_test, because that cannot handle sources with several labellings.

    Args:
        values: one value per source (n,), whose sign is flipped.
        generator: draws the signs and labellings.
        relabelled: for each further source, its value under each labelling of its images (k,), the true one
            first; one labelling is drawn instead of a sign.
        draws: the number of random draws.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size + len(relabelled) == 0:
        return 1.0
    true = float(array.sum()) + math.fsum(options[0] for options in relabelled)
    least = true - 1e-12 * (array.size + len(relabelled))
    logarithm = array.size * math.log(2.0) + sum(math.log(options.size) for options in relabelled)
    if logarithm <= math.log(_MOST_EXACT) + 1e-9:
        return float(np.mean(_all_sums(array, relabelled) >= least))
    if array.size + len(relabelled) > MANY_RELABELLED:
        flips = [np.stack([array, -array], axis=1)] if array.size else []
        return relabelling_p([*flips, *_by_size(relabelled)], generator, draws)
    reached = 0
    for sums in _flipped(array, generator, draws):
        for alike in _by_size(relabelled):
            drawn = generator.integers(
                alike.shape[1], size=(sums.size, len(alike)), dtype=_narrowest(alike.shape[1])
            )
            # In parts: the values looked up take eight times the room of the bytes drawn.
            for part in np.array_split(np.arange(sums.size), _PARTS):
                sums[part] += alike[np.arange(len(alike)), drawn[part]].sum(axis=1)
        reached += int(np.sum(sums >= least))
    return (reached + 1) / (draws + 1)


def _all_sums(values: Floats, relabelled: Sequence[Floats]) -> Floats:
    """Return the sum under every combination of signs and labellings."""
    sums = np.zeros(1)
    for options in (*(np.array([value, -value]) for value in values), *relabelled):
        sums = np.add.outer(sums, options).ravel()
    return sums


def _narrowest(options: int) -> type[np.uint8] | type[np.uint32]:
    # A byte a draw while it holds the number of options: the draws take most of the time.
    return np.uint8 if options <= _BYTE else np.uint32


def _by_size(relabelled: Sequence[Floats]) -> list[Floats]:
    """Return the options as tables (sources, options), one for each number of options."""
    sizes = dict.fromkeys(options.size for options in relabelled)
    return [np.array([options for options in relabelled if options.size == size]) for size in sizes]


def _flipped(values: Floats, generator: np.random.Generator, draws: int) -> Iterator[Floats]:
    """Yield sums of values (n,) under random signs; a table has the sums of every eight values by byte."""
    octets = np.zeros((-(-values.size // 8), 8))
    octets.flat[: values.size] = values
    table = octets @ (1 - 2 * (np.arange(256)[None, :] >> np.arange(8)[:, None] & 1))
    places = np.arange(len(octets))
    block = max(1, _BLOCK // max(1, len(octets)))
    for start in range(0, draws, block):
        drawn = generator.integers(256, size=(min(block, draws - start), len(octets)), dtype=np.uint8)
        yield table[places, drawn].sum(axis=1)


def rejectable(least: ArrayLike, level: float) -> Flags:
    """Return which hypotheses of a family can be rejected at all, and so are its members (Tarone 1990).

    A test on few sources has a least p that no outcome goes below. With K the smallest number such that at
    most K hypotheses have a least p of level / K or less, only those count. The choice depends on the design
    and not on any outcome, so a correction over the members alone keeps its level.

    Args:
        least: the least p that each hypothesis can have (m,).
        level: the level of the family.
    """
    attainable = np.sort(np.asarray(least, dtype=np.float64))
    sizes = np.arange(1, attainable.size + 1)
    counts = np.searchsorted(attainable, level / sizes * (1.0 + _ROUNDING), side="right")
    enough = np.flatnonzero(counts <= sizes)
    bound = level / sizes[enough[0]] if enough.size else 0.0
    return np.asarray(np.asarray(least, dtype=np.float64) <= bound * (1.0 + _ROUNDING))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that the family-wise error rate is at most alpha (Holm 1979)."""
    # scipy does not have Holm, and six lines do not justify a dependency on statsmodels.
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995).

    A NaN makes every adjusted value NaN, so that a family with an unknown p rejects nothing.
    """
    array = np.asarray(p_values, dtype=np.float64)
    # scipy raises an error on NaN that does not name the hypothesis.
    adjusted = (
        np.full_like(array, np.nan) if np.isnan(array).any() else scipy.stats.false_discovery_control(array)
    )
    return [float(value) for value in adjusted]
