"""Conjunctions of a run: which are tested, and on which images."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from counterpose_core.blobs import cache_key
from counterpose_core.contract.confirmation import (
    Condition as NamedCondition,
)
from counterpose_core.contract.confirmation import (
    ConjunctionPart,
    Instruction,
    ShownConditions,
    Wording,
)
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import (
    LEAST_REDRAWN,
    LOOK_PAIRS,
    MOST_DRAWS,
    is_futile,
)
from counterpose_core.stress_test.conjunctions import Conjunction, chosen_conjunctions
from counterpose_core.stress_test.screening import MOST_REDRAWN as MOST_HYPOTHESES
from counterpose_core.stress_test.screening import has_plenty
from counterpose_gateway.methods.stress_test.captioned import MOST_REDRAWN, CaptionedSources
from counterpose_gateway.methods.stress_test.conjunction_pairs import (
    PARTS,
    ChosenConjunction,
    conjunctions_of,
)
from counterpose_gateway.methods.stress_test.interventions import reworded_twice
from counterpose_gateway.methods.stress_test.items import items_hash
from counterpose_gateway.methods.stress_test.observations import Observation, Place
from counterpose_gateway.methods.stress_test.phrases import Phrases, fitting_conjunctions
from counterpose_gateway.methods.stress_test.shots import redraw_hash
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems
from counterpose_gateway.runs.items import PlannedItem

MOST_PAIRS = 12
"""Pairs of one conjunction: two of each of five sources can reach a smaller p than one of each of nine."""

BUDGET_PARTS = 3
"""Conjunctions get at most one of so many parts of the budget."""

FIRST_SLOT = 1000
"""Number of a run's first conjunction; those of changes are smaller."""


@dataclass(frozen=True)
class Meeting:
    """A source that can show two conditions, the wording that brings in each, and in which draw."""

    source: Observation
    wordings: tuple[Wording, Wording]
    draw: int | None = None

    @property
    def place(self) -> Place:
        """The source and the draw."""
        return self.source.source, self.draw

    def wordings_of(self, part: ShownConditions) -> tuple[Wording, Wording | None]:
        """The wordings of one of its images."""
        first, second = self.wordings
        return {"first": (first, None), "second": (second, None), "both": (first, second)}[part]


def conjunction_items(config: StressTestConfig, budget: int, seen: SeenItems) -> list[PlannedItem]:
    """Plan the first images of the conjunctions that the screen gives rise to, or more of those that live.

    Args:
        config: the run's configuration.
        budget: the items that may be planned for all hypotheses; conjunctions get a part of them.
        seen: all items so far.
    """
    phrases = Phrases(seen.columns)
    sources = CaptionedSources(config, seen.captioned)
    before = conjunctions_of(seen.later)
    if not before and not seen.later:
        candidates = fitting_conjunctions(seen, phrases, config.request.classifiers)
        chosen = chosen_conjunctions(candidates, budget)
        before = [
            ChosenConjunction(FIRST_SLOT + number, conjunction, names, {})
            for number, (conjunction, names) in enumerate(chosen.items())
        ]
    living = [each for each in before if not _is_given_up(each)]
    meetings = [(each, _meetings(config, each, sources, phrases, seen)) for each in living]
    planned = list[PlannedItem]()
    for each, own in _in_turns(meetings, budget // BUDGET_PARTS // len(PARTS)):
        planned += _items_of(config, each, own)
    return planned


def _in_turns(
    meetings: Sequence[tuple[ChosenConjunction, Sequence[Meeting]]], pairs: int
) -> Iterator[tuple[ChosenConjunction, Sequence[Meeting]]]:
    """So many meetings at most: the next of each conjunction, then the one after it.

    Served one after the other, the first would take all, and none of the rest could reach a small p.
    """
    turns = sorted((at, number) for number, (_, own) in enumerate(meetings) for at in range(len(own)))
    counts = Counter(number for _, number in turns[:pairs])
    for number, (each, own) in enumerate(meetings):
        yield each, own[: counts[number]]


def _is_given_up(each: ChosenConjunction) -> bool:
    return bool(each.places) and all(is_futile(each.columns(name)) for name in each.classifiers)


def _meetings(
    config: StressTestConfig,
    each: ChosenConjunction,
    sources: CaptionedSources,
    phrases: Phrases,
    seen: SeenItems,
) -> list[Meeting]:
    """The sources and draws that show a conjunction next."""
    conjunction = each.conjunction
    share = math.prod(seen.share_of_pairs(one.edit_type) for one in (conjunction.first, conjunction.second))
    whole = min((len(each.pairs(name)) for name in each.classifiers), default=0)
    if each.places:
        # Its own images tell more than those of single changes; one imagined is whole, so that it is above 0.
        share = (whole + 1) / (len(each.places) + 1)
    fresh = list(_fitting(sources.fresh_of(conjunction.object_class), conjunction, phrases))
    plenty = has_plenty(len(fresh) * share, MOST_HYPOTHESES)
    if config.redraw is not None and (each.scope == "images" if each.places else not plenty):
        all_of_class = sources.of_class(conjunction.object_class)
        few = list(_fitting(all_of_class, conjunction, phrases))[:MOST_REDRAWN]
        if len(few) < LEAST_REDRAWN:
            return []
        fresh = [Meeting(one.source, one.wordings, draw) for draw in range(1, MOST_DRAWS + 1) for one in few]
    wanted = LOOK_PAIRS if not each.places else MOST_PAIRS - whole
    left = [one for one in fresh if one.place not in each.places]
    return left[: max(0, math.ceil(wanted / share))]


def _fitting(sources: Iterable[Observation], conjunction: Conjunction, phrases: Phrases) -> Iterator[Meeting]:
    """The sources whose caption names neither condition, and into which both can be brought."""
    for source in sources:
        caption, label = source.caption or "", source.label
        first, second = (
            phrases.towards(each, caption, label) for each in (conjunction.first, conjunction.second)
        )
        if first is None or second is None:
            continue
        both = reworded_twice(caption, first, second, label)
        # The second may have taken the place of the first.
        if both is not None and phrases.shows(both.edited_caption, conjunction):
            yield Meeting(source, (first, second))


def _items_of(
    config: StressTestConfig, each: ChosenConjunction, meetings: Sequence[Meeting]
) -> list[PlannedItem]:
    conditions = [each.conjunction.first, each.conjunction.second]
    named = [NamedCondition(edit_type=one.edit_type, words=one.phrase) for one in conditions]
    hashed = items_hash(config)
    items: list[PlannedItem] = []
    for meeting in meetings:
        for part in PARTS:
            wording, second = meeting.wordings_of(part)
            source = meeting.source
            drawn = {} if meeting.draw is None else {"draw": meeting.draw, "redraw": redraw_hash(config)}
            instruction = Instruction(
                wording=wording,
                second_wording=second,
                conjunction=ConjunctionPart(conditions=named, shows=part),
                classifiers=list(each.classifiers),
                draw=meeting.draw,
            )
            items.append(
                PlannedItem(
                    item_key=cache_key(
                        source=source.source,
                        object_class=source.label,
                        edit_type="conjunction",
                        change=[*(list(one) for one in conditions), part],
                        config=hashed,
                        **drawn,
                    ),
                    ordinal=len(items),
                    kind="confirmation",
                    item_group=source.source,
                    source_image=source.image,
                    label=source.label,
                    edit_type=conditions[part == "second"].edit_type,
                    slot=each.slot,
                    caption=source.caption,
                    instruction=instruction.model_dump(mode="json"),
                )
            )
    return items
