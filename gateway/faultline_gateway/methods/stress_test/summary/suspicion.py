"""What the screen alone suspects: one rule for runs of one stage and of two."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.findings import FindingState, Screened
from faultline_core.statistics.bootstrap import mean_by_source
from faultline_core.stress_test.insights import LEAST_SOURCES
from faultline_core.stress_test.screening import LEAST_LOSS
from faultline_gateway.methods.stress_test.observations import Observation
from faultline_gateway.methods.stress_test.screen import ScreenedGroup, Suspicion
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips

MOST_FLIP = 0.5
"""A change that makes more than this share of the answers wrong is suspected without an interval: with
three or four sources no interval that covers excludes 0."""


def figure_of(suspicion: Suspicion) -> str:
    """The name under which the figures of a suspicion draw their random numbers."""
    classifier, change = suspicion
    words = [classifier, change.object_class, change.edit_type, change.removed, change.added]
    return "finding/" + "/".join(words)


def is_suspect(group: ScreenedGroup, estimator: LanceEstimator) -> bool:
    """Whether the screen alone speaks strongly: three sources, a loss, and turned answers or clear intervals.

    The mean loss must exceed the least loss of a finding. Beyond that either most sources turn wrong, each
    counted by its median edit (of several edits of an image one that turns it would often be found by
    chance), or both intervals are clear of what controls do: the fall from the original excludes 0, the loss
    beyond the controls the least loss of a finding.
    """
    candidate, name = group.candidate, group.classifier
    if candidate.n < LEAST_SOURCES or candidate.loss <= LEAST_LOSS:
        return False
    turned = sum(flips(pair.control, pair.edit, name) for pair in one_per_unit(group))
    if turned >= LEAST_SOURCES and turned > MOST_FLIP * candidate.n:
        return True
    figure = figure_of((name, group.change))
    beyond = estimator.mean(
        f"{figure}/screened", ((edit.unit, group.loss(edit, control)) for edit, control in group.pairs)
    )
    fall = estimator.mean(
        f"{figure}/fall",
        ((edit.unit, edit.before[name].p_true - edit.after[name].p_true) for edit in group.edits),
    )
    return (beyond.low or 0.0) > LEAST_LOSS and (fall.low or 0.0) > 0.0


def untested(group: ScreenedGroup, state: FindingState, mostly: tuple[str, str] = ("", "")) -> Draft:
    """The finding that a group of the screen gives rise to; ``mostly``: the words behind one without any."""
    change, words = group.change, (group.removed, group.added)
    found = one_per_unit(group)
    return Draft(
        state, group.classifier, change.object_class, change.edit_type, words, seen_in_screen(group), None,
        found,
        mostly,
    )  # fmt: skip


def seen_in_screen(group: ScreenedGroup | None) -> Screened:
    """What the screen saw of a change; nothing where it has no group of it."""
    if group is None:
        return Screened(loss=0.0, n_sources=0, n_images=0, flipped=0)
    candidate, pairs = group.candidate, group.pairs
    turned = {edit.unit for edit, control in pairs if flips(control, edit, group.classifier)}
    return Screened(loss=candidate.loss, n_sources=candidate.n, n_images=len(pairs), flipped=len(turned))


def one_per_unit(group: ScreenedGroup) -> Sequence[Pair]:
    """Each unit's edit that is nearest to its mean loss: ``of`` counts images of units, not edits."""
    means = mean_by_source((edit.unit, group.loss(edit, control)) for edit, control in group.pairs)

    def distance(pair: tuple[Observation, Observation]) -> tuple[float, str]:
        return abs(group.loss(*pair) - means[pair[0].unit]), pair[0].id

    nearest: dict[str, Pair] = {}
    for edit, control in sorted(group.pairs, key=distance):
        nearest.setdefault(edit.unit, Pair(control, edit, group.loss(edit, control)))
    return list(nearest.values())
