"""The page about the statistics: coverage and error rates on simulated sources whose truth is known."""

from __future__ import annotations

from pathlib import Path

from evaluation.evidence.markdown import figure, page, table
from evaluation.paths import RESULTS
from evaluation.validity.report import SimulatedFigures, Simulation

SIMULATION = RESULTS / "simulation.json"
RATES = {
    "false_alarm": "one test at 5 % finds a drop where edits cost what placebos do",
    "any_false_alarm_after_holm": "Holm at 5 % finds any drop in 20 tests of placebos",
    "false_discovery_share": "findings of Benjamini-Hochberg at 10 % that are false",
    "harmful_clusters_found": "harmful clusters that Benjamini-Hochberg at 10 % finds",
    "detectable_drop_found": "drops of the size stated as detectable (at 80 %) that are found",
}


def statistics_page(file: Path = SIMULATION) -> str:
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
    ]  # fmt: skip
    how = [
        f"- `python -m evaluation.simulation --replicates {simulation.replicates} --seed {simulation.seed}"
        " --out evaluation/results/simulation.json`",
        "",
        "Each source has one to five edits, as after the filters. The true value of every scenario is known.",
        "Holm's family is four classifiers by five edit types. Of Benjamini-Hochberg's fifty clusters, five",
        "cost 0.15 of p(true class).",
    ]
    return page("Statistics in simulation", finding, body, how)


def _rate(each: SimulatedFigures, name: str) -> str:
    estimate = {name: getattr(each, name) for name in RATES}[name]
    return f"{figure(estimate)}, n = {estimate.n:,}"
