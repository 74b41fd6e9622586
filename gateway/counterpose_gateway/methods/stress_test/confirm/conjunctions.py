"""Conjunctions of a run: which are tested, and on which images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from counterpose_core.blobs import cache_key
from counterpose_core.contract.confirmation import Condition as NamedCondition
from counterpose_core.contract.confirmation import ConjunctionPart, Instruction, ShownConditions, Wording
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import LEAST_REDRAWN, LOOK_PAIRS, MOST_DRAWS
from counterpose_core.stress_test.conjunctions import Conjunction, chosen_conjunctions
from counterpose_core.stress_test.screening import MOST_REDRAWN as MOST_HYPOTHESES
from counterpose_core.stress_test.screening import has_plenty
from counterpose_gateway.methods.stress_test.confirm.captioned import MOST_REDRAWN, CaptionedSources
from counterpose_gateway.methods.stress_test.confirm.phrases import Phrases, fitting_conjunctions
from counterpose_gateway.methods.stress_test.confirm.shots import redraw_hash
from counterpose_gateway.methods.stress_test.observations.conjunction_pairs import (
    PARTS,
    ChosenConjunction,
    conjunctions_of,
)
from counterpose_gateway.methods.stress_test.observations.observations import Observation, Place
from counterpose_gateway.methods.stress_test.screen.interventions import reworded_twice
from counterpose_gateway.methods.stress_test.screen.items import items_hash
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems, screened_groups
from counterpose_gateway.records.items import PlannedItem

MOST_PAIRS = 12
"""Pairs of one conjunction: two of each of five sources can reach a smaller p than one of each of nine."""

BUDGET_PARTS = 3
"""Conjunctions get one of so many parts of the budget, and what changes leave; half of it at the look."""

ITEMS_OF_A_TEST = MOST_PAIRS * len(PARTS)
"""Images that a test needs: shared among more, the budget would bring none of them to a small p."""

LEAST_CONJUNCTION_BUDGET = 400
"""Items from which on two conditions are looked at: those of some 90 to 135 images at five edits each.

With fewer, changes need them all: on 48 images three conjunctions beside eight changes left each too few
pairs to be proven.
"""

EXPLAINING_LOSS, EXPLAINING_SOURCES = 0.35, 3
"""Where one change costs at least so much over so many sources, a mistake needs no two conditions.

A bug of two conditions shows this seldom: the other one must be there in half of the images. Where a single
bug does it, every two words of the class meet in its mistakes, and their tests take the pairs of its own.
"""

FIRST_SLOT = 1000
"""Number of a run's first conjunction; those of changes are smaller."""


@dataclass(frozen=True)
class Meeting:
    """A source that can show two conditions, by which wordings, in which draw, and on which images."""

    source: Observation
    wordings: tuple[Wording, Wording]
    draw: int | None = None
    parts: tuple[ShownConditions, ...] = PARTS

    @property
    def place(self) -> Place:
        """The source and the draw."""
        return self.source.source, self.draw

    def wordings_of(self, part: ShownConditions) -> tuple[Wording, Wording | None]:
        """The wordings of one of its images."""
        first, second = self.wordings
        return {"first": (first, None), "second": (second, None), "both": (first, second)}[part]


def look_items(config: StressTestConfig, budget: int, seen: SeenItems) -> list[PlannedItem]:
    """Plan the first images with both conditions, of the conjunctions that the screen gives rise to.

    That a candidate does no harm is shown by images with both conditions, without those of either alone.

    Args:
        config: the run's configuration.
        budget: the items that may be planned for all hypotheses; conjunctions get a part of them.
        seen: all items so far.
    """
    if budget < LEAST_CONJUNCTION_BUDGET:
        return []
    phrases, sources = Phrases(seen.columns), CaptionedSources(config, seen.captioned)
    explained = _explained(config, seen)
    candidates = [
        each
        for each in fitting_conjunctions(seen, phrases, config.request.classifiers)
        if (each.classifier, each.conjunction.object_class) not in explained
    ]
    chosen = [
        ChosenConjunction(FIRST_SLOT + number, conjunction, names, {})
        for number, (conjunction, names) in enumerate(chosen_conjunctions(candidates, budget).items())
    ]
    wanted = [(each, _to_look_at(config, each, sources, phrases, seen)) for each in chosen]
    return _planned(config, wanted, budget // BUDGET_PARTS // 2)


def further_items(config: StressTestConfig, limit: int, seen: SeenItems) -> list[PlannedItem]:
    """Plan the pairs of the conjunctions that the look did not give up, the largest losses first.

    Args:
        config: the run's configuration.
        limit: the items that may be planned.
        seen: all items so far.
    """
    phrases, sources = Phrases(seen.columns), CaptionedSources(config, seen.captioned)
    living = [each for each in conjunctions_of(seen.later) if _loss(each) is not None]
    living.sort(key=lambda each: (-(_loss(each) or 0.0), each.slot))
    tested = living[: max(1, limit // ITEMS_OF_A_TEST)]
    wanted = [(each, _to_go_on_with(config, each, sources, phrases, seen)) for each in tested]
    return _planned(config, wanted, limit)


def _explained(config: StressTestConfig, seen: SeenItems) -> set[tuple[str, str]]:
    """The classifiers and classes of which one change alone explains the mistakes."""
    candidates = (
        group.candidate_above(EXPLAINING_LOSS)
        for group in screened_groups(seen.columns, config.request.classifiers).values()
    )
    return {
        (each.classifier, each.change.object_class)
        for each in candidates
        if each is not None and each.n >= EXPLAINING_SOURCES
    }


def _loss(each: ChosenConjunction) -> float | None:
    """What the images of the look lost, for the classifier that lost most; None where it is given up."""
    living = [each.look_columns(name).mean for name in each.classifiers if not each.is_given_up(name)]
    return max(living, default=None)


def _planned(
    config: StressTestConfig, wanted: Sequence[tuple[ChosenConjunction, Sequence[Meeting]]], limit: int
) -> list[PlannedItem]:
    """So many items at most: the next meeting of each conjunction, then the one after it."""
    turns = sorted((at, number) for number, (_, own) in enumerate(wanted) for at in range(len(own)))
    served: list[list[Meeting]] = [[] for _ in wanted]
    for at, number in turns:
        meeting = wanted[number][1][at]
        limit -= len(meeting.parts)
        if limit < 0:
            break
        served[number].append(meeting)
    return [
        item for (each, _), own in zip(wanted, served, strict=True) for item in _items_of(config, each, own)
    ]


def _to_look_at(
    config: StressTestConfig,
    each: ChosenConjunction,
    sources: CaptionedSources,
    phrases: Phrases,
    seen: SeenItems,
) -> list[Meeting]:
    """The sources and draws that show both conditions first."""
    share = _share_of_edits(each.conjunction, seen)
    fresh = list(_fitting(sources.fresh_of(each.conjunction.object_class), each.conjunction, phrases))
    if config.redraw is not None and not has_plenty(len(fresh) * share, MOST_HYPOTHESES):
        fresh = _drawn(each.conjunction, sources, phrases)
    return [replace(one, parts=("both",)) for one in fresh[: math.ceil(LOOK_PAIRS / share)]]


def _to_go_on_with(
    config: StressTestConfig,
    each: ChosenConjunction,
    sources: CaptionedSources,
    phrases: Phrases,
    seen: SeenItems,
) -> list[Meeting]:
    """The images that the pairs of the look lack, then further sources and draws."""
    conjunction = each.conjunction
    if each.scope == "images":
        meetings = _drawn(conjunction, sources, phrases)
    else:
        meetings = list(_fitting(sources.fresh_of(conjunction.object_class), conjunction, phrases))
    kept = {place for place, images in each.places.items() if images["both"].done}
    begun = [replace(one, parts=("first", "second")) for one in meetings if one.place in kept]
    singles = _share_of_edits(conjunction, seen)
    # Its own images tell more than those of single changes; one imagined is kept, so that it is above 0.
    share = singles * (len(kept) + 1) / (len(each.places) + 1)
    left = [one for one in meetings if one.place not in each.places]
    # A pair that is begun is one only if both of its other images are kept.
    return begun + left[: max(0, math.ceil((MOST_PAIRS - len(begun) * singles) / share))]


def _share_of_edits(conjunction: Conjunction, seen: SeenItems) -> float:
    """The share of images with both conditions, or of both single ones, that will probably be kept."""
    return math.prod(seen.share_of_pairs(one.edit_type) for one in (conjunction.first, conjunction.second))


def _drawn(conjunction: Conjunction, sources: CaptionedSources, phrases: Phrases) -> list[Meeting]:
    """Several draws of each of a few sources; none where too few can show both conditions."""
    of_class = sources.of_class(conjunction.object_class)
    few = list(_fitting(of_class, conjunction, phrases))[:MOST_REDRAWN]
    if len(few) < LEAST_REDRAWN:
        return []
    return [replace(one, draw=draw) for draw in range(1, MOST_DRAWS + 1) for one in few]


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
        for part in meeting.parts:
            wording, second = meeting.wordings_of(part)
            source = meeting.source
            drawn = {} if meeting.draw is None else {"draw": meeting.draw, "redraw": redraw_hash(config)}
            instruction = Instruction(
                wording=wording,
                second_wording=second,
                conjunction=ConjunctionPart(conditions=named, shows=part),
                classifiers=list(each.classifiers),
                draw=meeting.draw,
                mask=source.mask,
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
                    labels=source.labels,
                    instruction=instruction.model_dump(mode="json"),
                )
            )
    return items
