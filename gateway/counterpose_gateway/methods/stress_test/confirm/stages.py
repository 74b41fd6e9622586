"""The stages after the screen: four pairs of each chosen change, then more of those that are not hopeless."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import LOOK_PAIRS, MOST_PAIRS, MOST_REDRAWN_PAIRS, is_futile
from counterpose_core.stress_test.item_counts import LAST_STAGE
from counterpose_core.stress_test.screening import (
    LEAST_LOSS,
    Candidate,
    Change,
    choose_hypotheses,
    has_plenty,
    most_hypotheses,
    rank_candidates,
    with_pairs,
)
from counterpose_core.types import EDIT_TYPES, EditType
from counterpose_gateway.methods.stress_test.confirm.captioned import CaptionedSources, Showing
from counterpose_gateway.methods.stress_test.confirm.conjunctions import (
    BUDGET_PARTS,
    further_items,
    look_items,
)
from counterpose_gateway.methods.stress_test.confirm.shots import Wanted, in_turns, planned_items
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import (
    LOOK_STAGE,
    ChosenChange,
    Suspicion,
    chosen_changes,
    fresh_placebos,
    suspicions,
)
from counterpose_gateway.methods.stress_test.observations.observations import Observation, Place
from counterpose_gateway.methods.stress_test.observations.observed_items import ScreenedGroup
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems, screened_groups
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.stages import StagePlan

Groups = Mapping[Suspicion, ScreenedGroup]
Placebos = Mapping[Place, Observation]

_MOST_CONSIDERED = 100
"""Candidates whose fresh images are counted: a hundred captions each, and at most twelve are chosen."""

MOST_AT_LOOK = 12
"""Images of one change before the look, however few of its pairs can be expected to be kept."""


def next_stage(run: Run, results: Iterable[Item] | Iterable[RecordedItem]) -> StagePlan | None:
    """Plan the first pairs of the chosen changes, then the rest; None where the run has no more stages.

    ``results`` are all items, read one by one.
    """
    config = StressTestConfig.model_validate(run.resolved_config)
    confirmation = config.confirmation
    if confirmation is None or confirmation.reason is not None or run.stage >= LAST_STAGE:
        return None
    seen = SeenItems.of(results, config)
    if run.stage < LOOK_STAGE:
        reserved = look_items(config, confirmation.budget, seen)
        wanted = _to_look_at(config, confirmation.budget, seen)
        planned = _shots(config, wanted, seen, confirmation.budget - len(reserved))
    else:
        budget = confirmation.budget - len(seen.later)
        limit = min(budget, confirmation.budget // BUDGET_PARTS)
        wanted = _to_go_on_with(config, seen)
        planned = _shots(config, wanted, seen, budget - len(further_items(config, limit, seen)))
        reserved = further_items(config, max(limit, budget - len(planned)), seen)
    planned += [replace(each, ordinal=place) for place, each in enumerate(reserved, start=len(planned))]
    return StagePlan(planned) if planned else None


def _shots(
    config: StressTestConfig, wanted: Sequence[Wanted], seen: SeenItems, budget: int
) -> list[PlannedItem]:
    return [*planned_items(config, in_turns(wanted, seen.later, budget), seen.later)]


@dataclass(frozen=True)
class Chosen:
    """A hypothesis, and what can show its change: fresh sources, or draws where these are too few."""

    candidate: Candidate
    showings: Sequence[Showing]


def _choose(config: StressTestConfig, budget: int, seen: SeenItems, groups: Groups) -> list[Chosen]:
    """Choose the hypotheses that the screen gives rise to, best first."""
    sources, shares = CaptionedSources(config, seen.captioned), _shares(seen)
    known: dict[tuple[str, Change], tuple[list[Showing], list[Showing]]] = {}
    expected: list[Candidate] = []
    for candidate in rank_candidates(_candidates(groups))[:_MOST_CONSIDERED]:
        key, share = (candidate.classifier, candidate.change), shares[candidate.change.edit_type]
        wordings = groups[key].wordings
        fresh, redrawn = (find(candidate.change, wordings) for find in (sources.fresh, sources.redrawn))
        known[key] = fresh, redrawn
        expected.append(with_pairs(candidate, max(len(fresh), len(redrawn)), share))
    chosen = choose_hypotheses(expected, most_hypotheses(budget, redraws=config.redraw is not None))
    return [
        Chosen(each, _fresh_if_plenty(*known[each.classifier, each.change], shares, each, len(chosen)))
        for each in chosen
    ]


def _candidates(groups: Groups) -> Iterator[Candidate]:
    for group in groups.values():
        if (candidate := group.candidate_above(LEAST_LOSS)) is not None:
            yield candidate


def _fresh_if_plenty(
    fresh: list[Showing],
    redrawn: list[Showing],
    shares: Mapping[EditType, float],
    candidate: Candidate,
    hypotheses: int,
) -> list[Showing]:
    share = shares[candidate.change.edit_type]
    plenty = has_plenty(len(fresh) * share, hypotheses)
    return fresh if plenty or not redrawn else redrawn


def _shares(seen: SeenItems) -> dict[EditType, float]:
    return {edit_type: seen.share_of_pairs(edit_type) for edit_type in EDIT_TYPES}


def _to_look_at(config: StressTestConfig, budget: int, seen: SeenItems) -> list[Wanted]:
    groups, shares = screened_groups(seen.columns, config.request.classifiers), _shares(seen)
    classifiers: dict[Change, list[str]] = {}
    showings: dict[Change, Sequence[Showing]] = {}
    for each in _choose(config, budget, seen, groups):
        change = each.candidate.change
        classifiers.setdefault(change, []).append(each.candidate.classifier)
        showings.setdefault(change, each.showings)
    wanted: list[Wanted] = []
    for slot, (change, names) in enumerate(classifiers.items()):
        number = min(_showings_for(LOOK_PAIRS, shares[change.edit_type]), MOST_AT_LOOK)
        wanted.append(Wanted(slot, change, tuple(names), showings[change][:number]))
    return wanted


def _to_go_on_with(config: StressTestConfig, seen: SeenItems) -> list[Wanted]:
    changes, placebos = chosen_changes(seen.later), fresh_placebos(seen.later)
    living = {
        each.slot
        for (classifier, _), each in suspicions(changes)
        if not is_futile(each.columns(classifier, placebos))
    }
    groups, sources = (
        screened_groups(seen.columns, config.request.classifiers),
        CaptionedSources(config, seen.captioned),
    )
    return [_more(each, groups, sources, seen, placebos) for each in changes if each.slot in living]


def _more(
    each: ChosenChange, groups: Groups, sources: CaptionedSources, seen: SeenItems, placebos: Placebos
) -> Wanted:
    whole = len([edit for edit in each.edits if edit.done and edit.place in placebos])
    used = {(edit.unit, edit.place[1]) for edit in each.edits}
    spent = {item.place for item in seen.later if item.kind == "placebo"} - placebos.keys()
    find, most = (
        (sources.fresh, MOST_PAIRS) if each.scope == "class" else (sources.redrawn, MOST_REDRAWN_PAIRS)
    )
    left = [
        showing
        for showing in find(each.change, wordings_of(each, groups))
        if showing.unit not in used and showing.place not in spent
    ]
    number = _showings_for(most - whole, seen.share_of_pairs(each.change.edit_type))
    return Wanted(each.slot, each.change, each.classifiers, left[:number])


def wordings_of(each: ChosenChange, groups: Groups) -> list[Wording]:
    """The wordings of the screen; those of the look where the screen's edits were tried again since."""
    known = groups.get((each.classifiers[0], each.change))
    if known is not None:
        return known.wordings
    used = [edit.instruction.wording for edit in each.edits if edit.instruction and edit.instruction.wording]
    return list({(wording.removed, wording.added): wording for wording in used}.values())


def _showings_for(pairs: int, share: float) -> int:
    return max(0, math.ceil(pairs / share))
