"""The page about the statistics: coverage and error rates on simulated sources whose truth is known."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import figure, page, table
from evaluation.paths import RESULTS
from evaluation.validity.report import Part, SimulatedFigures, Simulation

SIMULATION = RESULTS / "simulation.json"
RATES_WITH_LIMITS = RESULTS / "error-rates.json"
RATES = {
    "false_alarm": "one test at 5 % finds a drop where edits cost what placebos do",
    "any_false_alarm_after_holm": "Holm at 5 % finds any drop in 20 tests of placebos",
    "false_discovery_share": "findings of Benjamini-Hochberg at 10 % that are false",
    "harmful_clusters_found": "harmful clusters that Benjamini-Hochberg at 10 % finds",
    "detectable_drop_found": "drops of the size stated as detectable (at 80 %) that are found",
}


class LimitedRate(Part):
    """A simulated rate, the defect that it guards against, and its limit."""

    defect: str
    replicates: int
    rate: Estimate
    mean_width: float | None
    limit: float
    side: str
    holds: bool


class LimitedRates(Part):
    """`results/error-rates.json`."""

    replicates: int
    seed: int
    rates: dict[str, LimitedRate]


def statistics_page(file: Path = SIMULATION, limits: Path = RATES_WITH_LIMITS) -> str:
    """Write the page."""
    simulation = Simulation.model_validate_json(file.read_bytes())
    sources = simulation.sources
    covered = [one.estimate for each in sources.values() for one in each.coverage.values() if one.estimate]
    alarms = [each.false_alarm.estimate for each in sources.values() if each.false_alarm.estimate is not None]
    finding = (
        f"95 % intervals contain the truth in {min(covered):.3f} to {max(covered):.3f} of"
        f" {simulation.replicates:,} simulated experiments, and a test at 5 % raises a false alarm in"
        f" {min(alarms):.3f} to {max(alarms):.3f}."
    )
    header = ("", *(f"{number} sources" for number in sources))
    shown = list(sources.values())
    scenarios = shown[0].coverage
    body = [
        "## How often a 95 % interval contains the truth", "",
        *table(header, ([name, *(figure(each.coverage[name]) for each in shown)] for name in scenarios)), "",
        f"n = {simulation.replicates:,} experiments in every cell.", "",
        "## Error rates and power", "",
        *table(header, ([title, *(_rate(each, name) for each in shown)] for name, title in RATES.items())),
        "",
        *_limited(LimitedRates.model_validate_json(limits.read_bytes())),
    ]  # fmt: skip
    how = [
        f"- `python -m evaluation.simulation --replicates {simulation.replicates} --seed {simulation.seed}"
        " --out evaluation/results/simulation.json`",
        "- `python -m evaluation.error_rates --replicates 1000 --full"
        " --out evaluation/results/error-rates.json`",
        "",
        "Each source has one to five edits, as after the filters. The true value of every scenario is known.",
        "Holm's family is four classifiers by five edit types. Of Benjamini-Hochberg's fifty clusters, five",
        "cost 0.15 of p(true class).",
    ]
    return page("Statistics in simulation", finding, body, how)


def _limited(found: LimitedRates) -> list[str]:
    broken = sum(not one.holds for one in found.rates.values())
    rows = (
        [
            name,
            figure(one.rate),
            f"{one.rate.n:,}",
            f"{one.side} {one.limit:g}",
            "" if one.mean_width is None else f"{one.mean_width:.2f}",
        ]
        for name, one in found.rates.items()
    )
    return [
        "## Every rate against its limit", "",
        "Sources differ in difficulty, images of difficult sources are dropped more often, and the noise of"
        " an image is normal (`sym`) or rare and only harmful (`asym`). Betting and exact intervals, of means"
        " over fewer than 40 sources and shares of fewer than 40 images, cover more than they must. Of"
        f" {len(found.rates)} rates, {broken} are beyond their limit by more than chance allows.", "",
        *table(("rate", "simulated", "n", "limit", "mean width"), rows),
    ]  # fmt: skip


def _rate(each: SimulatedFigures, name: str) -> str:
    estimate = {name: getattr(each, name) for name in RATES}[name]
    return f"{figure(estimate)}, n = {estimate.n:,}"
