"""What the screen alone suspects: one rule for runs of one stage and of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from counterpose_core.contract.confirmation import WordingScope
from counterpose_core.contract.findings import FindingState, Screened
from counterpose_core.stress_test.insights import LEAST_SOURCES
from counterpose_core.stress_test.screening import LEAST_LOSS, WordingKey
from counterpose_core.stress_test.wordings import scope_of
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import Suspicion
from counterpose_gateway.methods.stress_test.observations.observed_items import ScreenedGroup
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips

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
    seen = group.seen
    if seen.n_sources < LEAST_SOURCES or seen.loss <= LEAST_LOSS:
        return False
    turned = sum(flips(control, edit, group.classifier) for control, edit, _ in group.one_per_unit())
    if turned >= LEAST_SOURCES and turned > MOST_FLIP * seen.n_sources:
        return True
    figure = figure_of((group.classifier, group.change))
    beyond = estimator.mean_of(f"{figure}/screened", group.units, group.losses)
    fall = estimator.mean_of(f"{figure}/fall", *group.falls)
    return (beyond.low or 0.0) > LEAST_LOSS and (fall.low or 0.0) > 0.0


def untested(group: ScreenedGroup, state: FindingState, mostly: tuple[str, str] = ("", "")) -> Draft:
    """The finding that a group of the screen gives rise to; ``mostly``: the words behind one without any."""
    change, words = group.change, (group.removed, group.added)
    found = [Pair(control, edit, loss) for control, edit, loss in group.one_per_unit()]
    draft = Draft(
        state, group.classifier, change.object_class, change.edit_type, words, group.seen, None, found,
        mostly,
    )  # fmt: skip
    return replace(draft, wording_scope=_scope(found))


def _scope(pairs: Sequence[Pair]) -> WordingScope:
    """What the wordings have in common, as far as the screen alone can tell which hurt."""
    losses: dict[WordingKey, list[float]] = {}
    for pair in pairs:
        losses.setdefault(pair.edit.wording_key, []).append(pair.loss)
    return scope_of({wording: fmean(each) >= LEAST_LOSS for wording, each in losses.items()})


def seen_in_screen(group: ScreenedGroup | None) -> Screened:
    """What the screen saw of a change; nothing where it has no group of it."""
    return Screened(loss=0.0, n_sources=0, n_images=0, flipped=0) if group is None else group.seen
