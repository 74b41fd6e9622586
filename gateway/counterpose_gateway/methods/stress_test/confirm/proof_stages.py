"""The stages of a child run that proves a finding: the captions of images that are left, then their pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import LEAST_REDRAWN, MOST_DRAWS
from counterpose_gateway.methods.stress_test.confirm.captioned import MOST_REDRAWN, CaptionedSources
from counterpose_gateway.methods.stress_test.confirm.shots import Wanted, in_turns, planned_items
from counterpose_gateway.methods.stress_test.division import MOST_FRESH, by_class, in_drawn_order
from counterpose_gateway.methods.stress_test.screen.interventions import reworded
from counterpose_gateway.methods.stress_test.screen.items import plan_captions
from counterpose_gateway.methods.stress_test.summary.joined_runs import change_of
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.stages import StagePlan


class SourceImage(NamedTuple):
    """A source that a run has items of: its id, its image, and its group or its id."""

    source: str
    image: str
    unit: str


@dataclass(frozen=True)
class LeftImages:
    """The images of a class that no run has made a pair of for the finding, at most one of a group.

    A group of which an image has a pair is used up as a whole, since its other images would add nothing new.
    ``applicable`` have a caption that the change applies to, ``unread`` have none yet, of the ``others`` the
    caption does not say what would be changed. Each keeps the drawn order. ``share`` of the images of this
    class can be expected to fit, by all captions so far. ``spent`` are the images with a pair that the change
    applies to: they can be drawn again.
    """

    applicable: Sequence[Source]
    unread: Sequence[Source]
    others: int
    share: float
    spent: Sequence[Source]

    def to_read(self, images: int) -> list[Source]:
        """The images whose captions a run of so many pairs needs, those that surely fit first."""
        certain = list(self.applicable[:images])
        number = min(MOST_FRESH, math.ceil((images - len(certain)) / self.share))
        return certain + list(self.unread[:number])


def left_images(
    sources: Iterable[Source],
    proof: Proof,
    *,
    seed: int,
    tried: Iterable[SourceImage],
    captions: Mapping[str, str],
) -> LeftImages:
    """Sort the images that are left for a finding by what their captions say.

    Args:
        sources: the images of the dataset, with their groups.
        proof: the finding.
        seed: draws their order.
        tried: the images that the runs so far made more of than a caption, which uses up no image.
        captions: the captions that earlier runs wrote for images of the class, by source.
    """
    with_pair = {key for each in tried for key in each}
    label = proof.finding.object_class
    applicable: list[Source] = []
    unread: list[Source] = []
    spent: list[Source] = []
    others = 0
    units = by_class(sources).get(label, {})
    for unit in in_drawn_order(units, seed):
        is_spent = any({unit, each.id, each.image} & with_pair for each in units[unit])
        known = [
            each.model_copy(update={"caption": each.caption or captions.get(each.id)}) for each in units[unit]
        ]
        fit = [each for each in known if each.caption and applies(proof.wordings, each.caption, label)]
        without = [each for each in known if each.caption is None]
        if fit:
            (spent if is_spent else applicable).append(fit[0])
        elif not is_spent:
            unread += without[:1]
            others += 0 if without else len(known)
    fitting = sum(applies(proof.wordings, caption, label) for caption in captions.values())
    return LeftImages(applicable, unread, others, (fitting + 1) / (len(captions) + 2), spent)


def applies(wordings: Iterable[Wording], caption: str, label: str) -> bool:
    """Whether a caption can be changed by one of the wordings."""
    return any(reworded(caption, each, label) is not None for each in wordings)


def first_stage(config: StressTestConfig, left: LeftImages, images: int) -> list[PlannedItem]:
    """Plan a caption for each image that may be needed; a known one costs no call of the captioner."""
    proof = config.proof
    again = proof is not None and proof.drawn
    return list(plan_captions(config, left.spent[:MOST_REDRAWN] if again else left.to_read(images), first=0))


def must_draw(left: LeftImages, config: StressTestConfig) -> bool:
    """Whether no image is left, and some that have a pair can be drawn again."""
    can = config.redraw is not None and len(left.spent) >= LEAST_REDRAWN
    return can and not left.applicable and not left.unread


def draws_of(images: int) -> int:
    """Return how many pairs one proof can draw of images at hand."""
    return MOST_DRAWS * min(images, MOST_REDRAWN)


def next_stage(
    run: Run, config: StressTestConfig, results: Iterable[Item] | Iterable[RecordedItem]
) -> StagePlan | None:
    """Plan the pairs, on the images whose caption the change applies to; None after that."""
    proof = config.proof
    if proof is None or run.stage > 1:
        return None
    seen, change = SeenItems.of(results, config), change_of(proof)
    sources = CaptionedSources(config, seen.captioned)
    find = sources.redrawn if proof.drawn else sources.fresh
    showings = find(change, proof.wordings)[: proof.images]
    wanted = Wanted(0, change, tuple(config.request.classifiers), showings)
    shots = list(in_turns([wanted], seen.later, 2 * len(showings)))
    return StagePlan(planned_items(config, shots, seen.later)) if shots else None


def config_of_child(
    parent: StressTestConfig,
    proof: Proof,
    *,
    dataset: str,
    dataset_digest: str,
    seed: int,
    versions: Mapping[str, str],
    grouping: Grouping | None = None,
) -> StressTestConfig:
    """Return what the child depends on: all that its parent does, but one classifier and one change."""
    request = parent.request.model_copy(
        update={
            "dataset": dataset,
            "classifiers": [proof.finding.classifier],
            "function_specs": {},
            "edit_types": [proof.change.edit_type],
            "interventions": [],
            "lance_r_edits_per_image": 0,
            "limit": None,
            "confirm": False,
            "transforms": None,
            "seed": seed,
        }
    )
    return parent.model_copy(
        update={
            "request": request,
            "transforms": None,
            "versions": dict(versions),
            "dataset_digest": dataset_digest,
            "confirmation": None,
            "grouping": grouping,
            "notes": [],
            "baseline": [],
            "proof": proof,
        }
    )
