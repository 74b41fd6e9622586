"""The targets of the figures, and whether each was reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from counterpose_core.types import EDIT_TYPES, Estimate

from .measures import UNKNOWN
from .report import Agreement, Aim, Compared, Detection, EditFigures, Margin, Reconstruction, Simulation

RECALL, PRECISION = 0.8, 0.8
ALARMED_CONTROLS = 0.2
CELLS, SPEARMAN, SPEARMAN_WITHIN = 40, 0.7, 0.5
KEPT, KEPT_OF_A_TYPE = 0.3, 0.15
JUDGED = 30
CHANGED, CHANGED_HIGH, NET = 0.03, 0.06, 0.01
COVERAGE = 0.93
"""Exact and betting intervals of few sources cover more; their widths are told."""
ERROR, DISCOVERY = 0.05, 0.1
NO_MARGIN = Margin(spearman=UNKNOWN, mean_absolute_error=UNKNOWN)


def _aim(name: str, aim: str, reached: Estimate, holds: Callable[[float], bool]) -> Aim:
    met = None if reached.estimate is None else holds(reached.estimate)
    return Aim(name=name, aim=aim, reached=reached, met=met)


def at_least(name: str, reached: Estimate, least: float) -> Aim:
    """A figure that must be at least this large."""
    return _aim(name, f">= {least:g}", reached, lambda value: value >= least)


def at_most(name: str, reached: Estimate, most: float) -> Aim:
    """A figure that must be no larger than this."""
    return _aim(name, f"<= {most:g}", reached, lambda value: value <= most)


def of_detection(found: Detection) -> list[Aim]:
    """The targets for finding bugs and raising no false alarms."""
    return [
        at_least("recall of planted bugs with a true drop of 0.3 or more", found.recall_of_strong, RECALL),
        at_most("controls with any false alarm", found.controls_with_a_false_alarm, ALARMED_CONTROLS),
        at_least("precision of significant insights", found.precision, PRECISION),
    ]


def of_agreement(compared: Mapping[str, Compared]) -> list[Aim]:
    """The targets for estimated drops: they follow the true ones, and better than each baseline's."""
    mine = compared["counterpose"]
    assert isinstance(mine, Agreement)
    ranked = at_least(f"Spearman correlation over {CELLS} cells or more", mine.spearman, SPEARMAN)
    enough = mine.spearman.n >= CELLS
    others = (beats(name, other) for name, other in compared.items() if name != "counterpose")
    return [
        ranked.model_copy(update={"met": ranked.met and enough}),
        at_least("its mean within models", mine.spearman_within_models, SPEARMAN_WITHIN),
        *(aim for pair in others for aim in pair),
    ]


def beats(name: str, other: Compared) -> list[Aim]:
    """The targets against a baseline: larger correlation and smaller error; unknown where it was not run."""
    margin = NO_MARGIN if other.absent is not None else other.margin or NO_MARGIN
    return [
        _aim(f"Spearman correlation less that of {name}", "> 0", margin.spearman, lambda value: value > 0),
        _aim(
            f"mean absolute error less that of {name}",
            "< 0",
            margin.mean_absolute_error,
            lambda value: value < 0,
        ),
    ]


def of_edits(edits: Mapping[str, EditFigures]) -> list[Aim]:
    """The targets for kept edits: enough of them, and enough of each type for its own figures."""
    present = [name for name in EDIT_TYPES if name in edits]
    shares = [at_least(f"{name} edits kept", edits[name].kept, KEPT_OF_A_TYPE) for name in present]
    numbers = [
        Aim(
            name=f"success of kept {name} edits stands on enough of them",
            aim=f"n >= {JUDGED}",
            reached=edits[name].success,
            met=edits[name].success.n >= JUDGED,
        )
        for name in present
    ]
    return [at_least("edits kept", edits["all"].kept, KEPT), *shares, *numbers]


def of_reconstruction(found: Reconstruction) -> list[Aim]:
    """The targets for reconstructions: they leave predictions unchanged."""
    changed = at_most("predictions changed by reconstruction", found.changed, CHANGED)
    bounded = found.changed.high is not None and found.changed.high <= CHANGED_HIGH
    return [
        changed.model_copy(
            update={"aim": f"{changed.aim}, upper bound <= {CHANGED_HIGH:g}", "met": changed.met and bounded}
        ),
        _aim(
            "net change by reconstruction",
            f"within {NET:g} of 0",
            found.net,
            lambda value: abs(value) <= NET,
        ),
    ]


def of_simulation(simulated: Simulation) -> list[Aim]:
    """The targets for the statistics: nominal coverage, and error rates within what chance allows."""
    found = []
    for n, figures in simulated.sources.items():
        found += [
            _aim(
                f"interval coverage on {n} sources: {name}",
                f">= {COVERAGE:g}",
                reached,
                lambda value: value >= COVERAGE,
            )
            for name, reached in figures.coverage.items()
        ]
        rates = {
            "false alarms": (figures.false_alarm, ERROR),
            "any false alarm of a family": (figures.any_false_alarm_after_holm, ERROR),
            "false discoveries": (figures.false_discovery_share, DISCOVERY),
        }
        found += [_held(f"{name} on {n} sources", *rate) for name, rate in rates.items()]
    return found


def _held(name: str, reached: Estimate, level: float) -> Aim:
    # A test at its exact level lies above it in half of all simulations: the interval decides.
    met = None if reached.low is None else reached.low <= level
    return Aim(name=name, aim=f"lower bound <= {level:g}", reached=reached, met=met)
