"""Pairs of images with two conditions, and with one of them: what a run has shown of conjunctions so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from counterpose_core.contract.confirmation import ConfirmationScope, ShownConditions
from counterpose_core.stress_test.confirmation import PairColumns, is_futile
from counterpose_core.stress_test.conjunctions import Condition, Conjunction
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import (
    LOOK_STAGE,
    FreshPair,
    pair_columns,
)
from counterpose_gateway.methods.stress_test.observations.observations import Draws, Observation, Place

PARTS: tuple[ShownConditions, ...] = ("first", "second", "both")
"""The images of one pair: each condition alone, and both."""


@dataclass(frozen=True)
class ChosenConjunction:
    """A conjunction and the classifiers that it is tested for, with the images made for it so far.

    ``places`` are its sources and draws in planned order, each with its images by what they show.
    """

    slot: int
    conjunction: Conjunction
    classifiers: tuple[str, ...]
    places: Mapping[Place, Mapping[ShownConditions, Observation]]

    @property
    def scope(self) -> ConfirmationScope:
        """Whether its pairs speak of the class, or of the images that they are drawn of."""
        return "images" if any(draw is not None for _, draw in self.places) else "class"

    def wholes(self, classifier: str) -> list[Mapping[ShownConditions, Observation]]:
        """The images of each place of which all three were kept and answered."""
        draws = Draws()
        return [
            images
            for images in self.places.values()
            if all(part in images and classifier in images[part].after for part in PARTS)
            and not draws.repeats(*images.values())
        ]

    def pairs(self, classifier: str) -> list[FreshPair]:
        """Both conditions beside that one of them that costs more: a loss is what neither does alone."""
        pairs: list[FreshPair] = []
        for images in self.wholes(classifier):
            alone = min((images["first"], images["second"]), key=lambda image: image.after[classifier].score)
            loss = alone.after[classifier].score - images["both"].after[classifier].score
            pairs.append(FreshPair(alone, images["both"], loss))
        return pairs

    def columns(self, classifier: str) -> PairColumns:
        """The pairs as columns of numbers."""
        return pair_columns(self.pairs(classifier), classifier, redrawn=self.scope == "images")

    def look_columns(self, classifier: str) -> PairColumns:
        """The originals beside the images with both conditions that the look made of them."""
        images = [
            images["both"]
            for images in self.places.values()
            if "both" in images
            and images["both"].stage == LOOK_STAGE
            and classifier in images["both"].after
            and classifier in images["both"].before
        ]
        return PairColumns.of(
            [image.unit for image in images],
            [image.before[classifier].score for image in images],
            [image.after[classifier].score for image in images],
            redrawn=self.scope == "images",
        )

    def is_given_up(self, classifier: str) -> bool:
        """Whether both conditions together cost so little that no test of either alone can matter."""
        return is_futile(self.look_columns(classifier))


def conjunctions_of(seen: Iterable[Observation]) -> list[ChosenConjunction]:
    """Return the conjunctions that stages after the first have images of, the best of the screen first."""
    places: dict[tuple[int, Conjunction, tuple[str, ...]], dict[Place, dict[ShownConditions, Observation]]]
    places = {}
    for each in seen:
        instruction = each.instruction
        if instruction is None or instruction.conjunction is None:
            continue
        conditions = [Condition(one.edit_type, one.words) for one in instruction.conjunction.conditions]
        key = each.slot, Conjunction(each.label, *conditions), tuple(instruction.classifiers)
        of_place = places.setdefault(key, {}).setdefault(each.place, {})
        of_place[instruction.conjunction.shows] = each
    chosen = [ChosenConjunction(*key, images) for key, images in places.items()]
    return sorted(chosen, key=lambda each: each.slot)
