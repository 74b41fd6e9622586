"""Tests the statistics on simulated sources: coverage of intervals, error rates and power.

    python -m evaluation.simulation --replicates 1000 --out evaluation/results/simulation.json

Each source has one to five edits, as after the filters. The true value of every scenario is known in closed
form. Takes minutes on one core; the unit tests run a few replicates.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from tqdm import tqdm

from counterpose_core.statistics.bootstrap import (
    Floats,
    bootstrap_mean,
    bootstrap_ratio,
    proportion,
)
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.statistics.p_values import benjamini_hochberg, holm
from counterpose_core.types import Estimate

SOURCES = (10, 20, 40)
FAMILY = 20
"""Four classifiers by five edit types."""

CLUSTERS, HARMFUL = 50, 5
"""Ten classes by five clusters, of which so many really hurt."""

_DRAWS = 2000
_FLIPS = 4000
_EFFECT = 0.3
_WRONG = 0.15


@dataclass(frozen=True)
class Scenario:
    """How to draw one estimate from n sources, and its true value."""

    truth: float
    draw: Callable[[int, Generator], Estimate]


def _edits(n: int, generator: Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    return generator.integers(1, 6, size=n)


def _mean(values: Floats, generator: Generator, bounds: tuple[float, float] = (-1.0, 1.0)) -> Estimate:
    return bounded_mean(values, generator, bounds=bounds, draws=_DRAWS)


def accuracy(n: int, generator: Generator) -> Estimate:
    """The share of a source's edits answered right; how hard a source is differs widely."""
    edits = _edits(n, generator)
    right = generator.binomial(edits, generator.beta(1.0, 2.0, size=n))
    return _mean(right / edits, generator, (0.0, 1.0))


def drop(n: int, generator: Generator) -> Estimate:
    """The drop of acc@1: some sources were wrong before, and some edits of these turn right."""
    edits = _edits(n, generator)
    lost = generator.binomial(edits, generator.beta(0.6, 2.4, size=n)) / edits
    won = generator.binomial(edits, 0.2) / edits
    return _mean(np.where(generator.random(n) < _WRONG, -won, lost), generator)


def skewed(n: int, generator: Generator) -> Estimate:
    """Changes of p(true class): most sources hardly move, a few lose much."""
    weak = generator.beta(0.6, 2.0, size=n)
    lost = [np.mean(2.0 * generator.beta(2.0, 4.0, size=edits)) for edits in _edits(n, generator)]
    return _mean(-weak * np.array(lost), generator)


def small(n: int, generator: Generator) -> Estimate:
    """Small changes of p(true class), as likely up as down around their mean."""
    edits = _edits(n, generator)
    return _mean(-0.05 + generator.normal(0.0, 0.1 * np.sqrt(1.0 + 1.0 / edits)), generator)


def kept(n: int, generator: Generator) -> Estimate:
    """The share of edits kept, where some captions lend themselves to edits and some do not."""
    edits = _edits(n, generator)
    passed = generator.binomial(edits, generator.beta(2.0, 2.0, size=n))
    counts = {str(source): (int(passed[source]), int(edits[source])) for source in range(n)}
    return bootstrap_ratio(counts, generator, draws=_DRAWS)


def beyond(n: int, generator: Generator) -> Estimate:
    """The drop beyond the source's own placebo, which four sources in five have."""
    return _contrast(n, generator, _EFFECT).estimate(generator, draws=_DRAWS)


SCENARIOS: dict[str, Scenario] = {
    "accuracy": Scenario(1 / 3, accuracy),
    "drop of accuracy": Scenario((1 - _WRONG) * 0.2 - _WRONG * 0.2, drop),
    "skewed change of p": Scenario(-2 * (0.6 / 2.6) * (2 / 6), skewed),
    "small change of p": Scenario(-0.05, small),
    "share kept": Scenario(0.5, kept),
    "drop beyond the placebo": Scenario(_EFFECT / 2, beyond),
}


def coverage(scenario: Scenario, n: int, replicates: int, generator: Generator) -> Estimate:
    """Return how often the 95 % interval contains the truth."""
    held = 0
    for _ in range(replicates):
        figure = scenario.draw(n, generator)
        assert figure.low is not None
        assert figure.high is not None
        held += figure.low - 1e-12 <= scenario.truth <= figure.high + 1e-12
    return proportion(held, replicates)


def _side_effects(edits: int, generator: Generator) -> Floats:
    """What being edited costs by itself (edits,): seldom much, and never less than nothing."""
    return 0.5 * generator.beta(0.5, 3.0, size=edits)


def _contrast(n: int, generator: Generator, effect: float, *, more: float = 0.0) -> Contrast:
    """Edits that cost, beyond a placebo, ``more`` and ``effect`` times a share that differs by source."""
    losses: list[float] = []
    sources: list[int] = []
    placebos = np.full(n, np.nan)
    for index, edits in enumerate(_edits(n, generator)):
        own = generator.normal(0.0, 0.05)
        harm = more + effect * generator.beta(1.0, 1.0)
        losses += list(own + harm + _side_effects(edits, generator))
        sources += [index] * int(edits)
        if index % 5:
            placebos[index] = own + float(_side_effects(1, generator)[0])
    contrast = Contrast.between(losses, sources, placebos)
    assert contrast is not None
    return contrast


def false_alarms(n: int, replicates: int, generator: Generator) -> Estimate:
    """Return how often one test at 5 % finds a drop where edits cost as much as placebos."""
    found = sum(_contrast(n, generator, 0.0).p(generator, draws=_FLIPS) <= 0.05 for _ in range(replicates))
    return proportion(found, replicates)


def any_false_alarm(n: int, replicates: int, generator: Generator) -> Estimate:
    """Return how often Holm at 0.05 finds anything in a family of placebos."""
    found = 0
    for _ in range(replicates):
        family = [_contrast(n, generator, 0.0).p(generator, draws=_FLIPS) for _ in range(FAMILY)]
        found += min(holm(family)) <= 0.05
    return proportion(found, replicates)


def discoveries(n: int, replicates: int, generator: Generator) -> tuple[Estimate, Estimate]:
    """Share of Benjamini-Hochberg's findings at 0.10 that are false, and of harmful clusters found.

    Each is the mean over families, in which one cluster in ten costs 0.15 of p(true class).
    """
    false, power = [], []
    for _ in range(replicates):
        effects = [_EFFECT] * HARMFUL + [0.0] * (CLUSTERS - HARMFUL)
        raw = [_contrast(n, generator, effect).p(generator, draws=_FLIPS) for effect in effects]
        found = [p <= 0.10 for p in benjamini_hochberg(raw)]
        false.append(sum(found[HARMFUL:]) / max(1, sum(found)))
        power.append(sum(found[:HARMFUL]) / HARMFUL)
    return (
        bootstrap_mean(false, generator, bounds=(0.0, 1.0)),
        bootstrap_mean(power, generator, bounds=(0.0, 1.0)),
    )


def detected(n: int, replicates: int, generator: Generator) -> Estimate:
    """Return how often a drop of the size stated as detectable (at 80 %) is found."""
    found = 0
    for _ in range(replicates):
        stated = _contrast(n, generator, 0.0).detectable(0.05)
        assert stated is not None
        found += _contrast(n, generator, 0.0, more=stated).p(generator, draws=_FLIPS) <= 0.05
    return proportion(found, replicates)


def simulate(replicates: int, seed: int) -> dict[str, Any]:
    """Return all figures, by number of sources."""
    figures: dict[str, Any] = {"replicates": replicates, "seed": seed, "sources": {}}
    for n in tqdm(SOURCES, desc="sources"):
        generator = np.random.default_rng([seed, n])
        false, power = discoveries(n, max(1, replicates // 20), generator)
        row = {
            "coverage": {name: coverage(one, n, replicates, generator) for name, one in SCENARIOS.items()},
            "false_alarm": false_alarms(n, replicates, generator),
            "any_false_alarm_after_holm": any_false_alarm(n, max(1, replicates // 5), generator),
            "false_discovery_share": false,
            "harmful_clusters_found": power,
            "detectable_drop_found": detected(n, replicates, generator),
        }
        figures["sources"][str(n)] = _plain(row)
    return figures


def _plain(figure: Any) -> Any:
    if isinstance(figure, Estimate):
        return figure.model_dump()
    return {name: _plain(value) for name, value in figure.items()}


def main() -> None:
    """Simulate and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000, help="simulated experiments per figure")
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    arguments = parser.parse_args()
    figures = simulate(arguments.replicates, arguments.seed)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
