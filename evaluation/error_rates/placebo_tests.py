"""How often a test finds a loss where edits fare as placebos do, and how often where they do not."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.statistics.p_values import benjamini_hochberg, holm, rejectable
from counterpose_core.types import Estimate

from .world import EASE, Floats, Noise, Sources, draw_sources

LEVEL, DISCOVERY = 0.05, 0.10
DRAWS = 2000
_PAIR = 0.15


def contrast_of(found: Sources, *, grouped: bool = False, right: bool = False) -> Contrast | None:
    """The contrast of p(true class), or of right answers."""
    edits, sources, places = found.kept
    groups = found.groups.tolist() if grouped else None
    placebos = _loss(found.placebo, right)
    return Contrast.between(_loss(edits, right), sources, placebos, groups=groups, places=places)


def _loss(p: Floats, right: bool) -> Floats:
    return np.where(np.isnan(p), np.nan, p < 0.5) if right else 1.0 - p


def _p(contrast: Contrast | None, generator: Generator) -> float:
    return 1.0 if contrast is None else contrast.p(generator, draws=DRAWS)


def few_placebos(n: int, replicates: int, generator: Generator) -> Estimate:
    """False alarms for a class that editing disturbs, with four placebos of its own (D1)."""
    found = 0
    for _ in range(replicates):
        placebos = np.full(n, np.nan)
        placebos[:4] = 0.5 + _PAIR + generator.normal(0.0, 0.05, 4)
        edits = 0.5 + _PAIR + generator.normal(0.0, 0.05, n)
        contrast = Contrast.between(edits, np.arange(n), placebos)
        found += _p(contrast, generator) <= LEVEL
    return proportion(found, replicates)


def false_alarms(
    n: int,
    edits: int,
    noise: Noise,
    replicates: int,
    generator: Generator,
    *,
    block: int = 1,
    right: bool = False,
) -> Estimate:
    """False alarms where a gate drops images of difficult sources (D2), or of near-duplicates (D10)."""
    found = 0
    for _ in range(replicates):
        sources = draw_sources(n, edits, generator, noise=noise, block=block)
        found += _p(contrast_of(sources, grouped=block > 1, right=right), generator) <= LEVEL
    return proportion(found, replicates)


def power(n: int, edits: int, noise: Noise, replicates: int, generator: Generator) -> Estimate:
    """How often the loss of an edit that hits 40 % of the sources is found."""
    found = 0
    for _ in range(replicates):
        sources = draw_sources(n, edits, generator, noise=noise, harm=3.0, hit=0.4)
        found += _p(contrast_of(sources), generator) <= LEVEL
    return proportion(found, replicates)


def any_lost_accuracy(
    n: int, classifiers: int, noise: Noise, replicates: int, generator: Generator
) -> tuple[Estimate, Estimate]:
    """How often any classifier "loses accuracy", or gains some, where edits fare as placebos (D3, D12).

    Returns:
        The shares of runs with a loss, and with a gain, after Holm over both directions of all classifiers.
    """
    losses = gains = 0
    for _ in range(replicates):
        found = [
            contrast_of(
                draw_sources(n, 5, generator, noise=noise, ease=EASE + generator.normal(0.0, 0.3)), right=True
            )
            for _ in range(classifiers)
        ]
        known = [contrast for contrast in found if contrast is not None]
        family = [*known, *(contrast.reversed for contrast in known)]
        found_of = shown(family, generator)
        losses += any(found_of[: len(known)])
        gains += any(found_of[len(known) :])
    return proportion(losses, replicates), proportion(gains, replicates)


def shown(family: list[Contrast], generator: Generator, *, discovery: bool = False) -> list[bool]:
    """Which contrasts of a family are shown, after Holm's correction or for a rate of false discoveries."""
    level = DISCOVERY if discovery else LEVEL
    members = rejectable([contrast.least_p for contrast in family], level)
    raw = [_p(contrast, generator) for contrast, member in zip(family, members, strict=True) if member]
    adjusted = iter(benjamini_hochberg(raw) if discovery else holm(raw))
    return [bool(member) and next(adjusted) <= level for member in members]


def changes_of_words(
    groups: int, planted: int, replicates: int, generator: Generator, *, largest: int = 24
) -> tuple[Estimate, Estimate, Estimate]:
    """One family of groups of 3 to ``largest`` sources, of which the first ``planted`` hurt (D4, D5, D15).

    Returns:
        The share of runs with any false finding, the false discovery rate over the runs, and the share of
        planted groups that are found.
    """
    any_false = recalled = shares = 0.0
    for _ in range(replicates):
        family = []
        planted_at = []
        for index in range(groups):
            size = int(generator.integers(3, largest + 1))
            hurts = index < planted
            found = contrast_of(draw_sources(size, 2, generator, harm=4.0 if hurts else 0.0, hit=0.9))
            if found is not None:
                family.append(found)
                planted_at.append(hurts)
        told = np.array(shown(family, generator, discovery=True), dtype=np.bool_)
        hurting = np.array(planted_at, dtype=np.bool_)
        false = int((told & ~hurting).sum())
        any_false += false > 0
        shares += false / max(1, int(told.sum()))
        recalled += int((told & hurting).sum())
    total = max(1, planted * replicates)
    return (
        proportion(int(any_false), replicates),
        proportion(round(shares), replicates),
        proportion(int(recalled), total),
    )
