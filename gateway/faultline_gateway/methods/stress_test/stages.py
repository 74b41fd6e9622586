"""The stages after the screen: four pairs of each chosen change, then more of those that are not hopeless."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultline_core.blobs import cache_key
from faultline_core.contract.confirmation import Instruction, SuspectedChange, Wording
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.stress_test.confirmation import LOOK_PAIRS, MOST_PAIRS, is_futile
from faultline_core.stress_test.screening import (
    Candidate,
    Change,
    choose_hypotheses,
    most_hypotheses,
    rank_candidates,
    with_pairs,
)
from faultline_core.types import EDIT_TYPES, EditType
from faultline_gateway.methods.stress_test.fresh_pairs import (
    ChosenChange,
    chosen_changes,
    fresh_placebos,
    losses,
    suspicions,
)
from faultline_gateway.methods.stress_test.interventions import reworded
from faultline_gateway.methods.stress_test.items import items_hash
from faultline_gateway.methods.stress_test.observations import Observation, observe
from faultline_gateway.methods.stress_test.screen import (
    ScreenedGroup,
    Suspicion,
    screened_groups,
    share_of_pairs,
)
from faultline_gateway.runs.items import PlannedItem
from faultline_gateway.runs.seeds import derive_seed
from faultline_gateway.runs.stages import StagePlan

Groups = Mapping[Suspicion, ScreenedGroup]
Placebos = Mapping[str, Observation]

LOOK_STAGE, LAST_STAGE = 2, 3

_MOST_CONSIDERED = 100
"""Candidates whose fresh images are counted: a hundred captions each, and at most twelve are chosen."""

MOST_AT_LOOK = 12
"""Images of one change before the look, however few of its pairs can be expected to be kept."""


def next_stage(run: Run, results: Iterable[Item]) -> StagePlan | None:
    """Plan the first pairs of the chosen changes, then the rest; None where the run has no more stages."""
    config = StressTestConfig.model_validate(run.resolved_config)
    confirmation = config.confirmation
    if confirmation is None or confirmation.reason is not None or run.stage >= LAST_STAGE:
        return None
    seen = observe(results, config)
    budget = confirmation.budget - sum(each.stage > 1 for each in seen)
    if run.stage < LOOK_STAGE:
        wanted = _to_look_at(config, confirmation.budget, seen)
    else:
        wanted = _to_go_on_with(config, seen)
    shots = list(_in_turns(wanted, seen, budget))
    return StagePlan(_items(config, shots, seen)) if shots else None


@dataclass(frozen=True)
class Shot:
    """An edit to make: a fresh source, and the change by the wording that applies to its caption."""

    source: Observation
    wanted: Wanted
    wording: Wording


@dataclass(frozen=True)
class Wanted:
    """A change with the fresh sources that can show it, in the order of their draw, and how many to take."""

    slot: int
    change: Change
    classifiers: tuple[str, ...]
    applicable: Sequence[tuple[Observation, Wording]]
    number: int


def _choose(
    config: StressTestConfig, budget: int, seen: Sequence[Observation], groups: Groups
) -> list[Candidate]:
    """Choose the hypotheses that the screen gives rise to, best first."""
    fresh, shares = _Fresh(config, seen), _shares(seen)
    ranked = rank_candidates(group.candidate for group in groups.values())
    expected = [
        with_pairs(
            candidate,
            len(fresh.applicable(candidate.change, groups[candidate.classifier, candidate.change].wordings)),
            shares[candidate.change.edit_type],
        )
        for candidate in ranked[:_MOST_CONSIDERED]
    ]
    return choose_hypotheses(expected, most_hypotheses(budget))


def _shares(seen: Sequence[Observation]) -> dict[EditType, float]:
    return {edit_type: share_of_pairs(seen, edit_type) for edit_type in EDIT_TYPES}


def _to_look_at(config: StressTestConfig, budget: int, seen: Sequence[Observation]) -> list[Wanted]:
    groups, fresh, shares = (
        screened_groups(seen, config.request.classifiers),
        _Fresh(config, seen),
        _shares(seen),
    )
    classifiers: dict[Change, list[str]] = {}
    for candidate in _choose(config, budget, seen, groups):
        classifiers.setdefault(candidate.change, []).append(candidate.classifier)
    wanted: list[Wanted] = []
    for slot, (change, names) in enumerate(classifiers.items()):
        applicable = fresh.applicable(change, groups[names[0], change].wordings)
        number = _sources_for(LOOK_PAIRS, shares[change.edit_type])
        wanted.append(Wanted(slot, change, tuple(names), applicable, min(number, MOST_AT_LOOK)))
    return wanted


def _to_go_on_with(config: StressTestConfig, seen: Sequence[Observation]) -> list[Wanted]:
    changes, placebos = chosen_changes(seen), fresh_placebos(seen)
    living = {
        each.slot
        for (classifier, _), each in suspicions(changes)
        if not is_futile(losses(each.pairs(classifier, placebos)))
    }
    groups, fresh = screened_groups(seen, config.request.classifiers), _Fresh(config, seen)
    return [_more(each, groups, fresh, seen, placebos) for each in changes if each.slot in living]


def _more(
    each: ChosenChange, groups: Groups, fresh: _Fresh, seen: Sequence[Observation], placebos: Placebos
) -> Wanted:
    whole = len([edit for edit in each.edits if edit.done and edit.source in placebos])
    wordings = _wordings(each, groups)
    used = {edit.unit for edit in each.edits}
    spent = {item.source for item in seen if item.kind == "placebo" and item.stage > 1} - placebos.keys()
    applicable = [
        (source, wording)
        for source, wording in fresh.applicable(each.change, wordings)
        if source.unit not in used and source.source not in spent
    ]
    number = _sources_for(MOST_PAIRS - whole, share_of_pairs(seen, each.change.edit_type))
    return Wanted(each.slot, each.change, each.classifiers, applicable, number)


def _wordings(each: ChosenChange, groups: Groups) -> list[Wording]:
    """The wordings of the screen; those of the look where the screen's edits were tried again since."""
    known = groups.get((each.classifiers[0], each.change))
    if known is not None:
        return known.wordings
    used = [edit.instruction.wording for edit in each.edits if edit.instruction and edit.instruction.wording]
    return list({(wording.removed, wording.added): wording for wording in used}.values())


def _sources_for(pairs: int, share: float) -> int:
    return max(0, math.ceil(pairs / share))


class _Fresh:
    """The sources that are kept for confirmation and have a caption, in the order that the seed draws."""

    def __init__(self, config: StressTestConfig, seen: Iterable[Observation]) -> None:
        self._seed = config.request.seed
        captioned = [each for each in seen if each.kind == "caption" and each.done and each.caption]
        captioned.sort(key=lambda each: derive_seed(self._seed, each.source, "fresh"))
        self._of_class: dict[str, list[Observation]] = {}
        for each in captioned:
            self._of_class.setdefault(each.label, []).append(each)

    def applicable(self, change: Change, wordings: Sequence[Wording]) -> list[tuple[Observation, Wording]]:
        """Return the sources that a wording applies to, each with one that the seed draws.

        Of a group there is one source: pairs that are not independent would count as one.
        """
        found: list[tuple[Observation, Wording]] = []
        units: set[str] = set()
        for source in self._of_class.get(change.object_class, []):
            if source.unit in units:
                continue
            fitting = [each for each in wordings if reworded(source.caption or "", each, source.label)]
            if fitting:
                units.add(source.unit)
                draw = derive_seed(self._seed, source.source, "wording", change.removed, change.added)
                found.append((source, fitting[draw % len(fitting)]))
        return found


def _in_turns(wanted: Sequence[Wanted], seen: Iterable[Observation], budget: int) -> Iterator[Shot]:
    """Yield one more edit of each change in turns, while ``budget`` items last.

    The first edit of a source pays for its placebo too; further changes of that source share it.
    """
    paid = {each.source for each in seen if each.kind == "placebo" and each.stage > 1}
    queues = {each.slot: iter(each.applicable[: each.number]) for each in wanted}
    while queues:
        for each in wanted:
            source, wording = next(queues.get(each.slot, iter(())), (None, None))
            cost = 1 if source is None or source.source in paid else 2
            if source is None or wording is None or cost > budget:
                queues.pop(each.slot, None)
                continue
            budget -= cost
            paid.add(source.source)
            yield Shot(source, each, wording)


def _items(
    config: StressTestConfig, shots: Sequence[Shot], seen: Iterable[Observation]
) -> Iterator[PlannedItem]:
    """Yield the placebo and the edits of each source, in the order of the sources' first edits."""
    have = {each.source for each in seen if each.kind == "placebo" and each.stage > 1}
    config_hash, ordinal = items_hash(config), 0
    by_source: dict[str, list[Shot]] = {}
    for shot in shots:
        by_source.setdefault(shot.source.source, []).append(shot)
    for source, found in by_source.items():
        planned: list[Shot | None] = [*found] if source in have else [None, *found]
        for each in planned:
            yield _item(config_hash, found[0].source, each, ordinal)
            ordinal += 1


def _item(config_hash: str, source: Observation, shot: Shot | None, ordinal: int) -> PlannedItem:
    asked = Instruction() if shot is None else _instruction(shot)
    change = None if shot is None else shot.wanted.change
    return PlannedItem(
        item_key=cache_key(
            source=source.source,
            object_class=source.label,
            edit_type="confirmation" if change else "placebo",
            change=None if change is None else [change.edit_type, change.removed, change.added],
            config=config_hash,
        ),
        ordinal=ordinal,
        kind="confirmation" if change else "placebo",
        item_group=source.source,
        source_image=source.image,
        label=source.label,
        edit_type=None if change is None else change.edit_type,
        slot=0 if shot is None else shot.wanted.slot,
        caption=source.caption,
        instruction=asked.model_dump(mode="json"),
    )


def _instruction(shot: Shot) -> Instruction:
    change = shot.wanted.change
    words = SuspectedChange(edit_type=change.edit_type, removed=change.removed, added=change.added)
    return Instruction(change=words, wording=shot.wording, classifiers=list(shot.wanted.classifiers))
