"""Images of edited captions: scenes that the label alone hardly ever shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from counterpose_core.bug_hunt.descriptions import is_usable
from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction
from counterpose_core.contract.perturber import PerturbItem, PerturbRequest
from counterpose_core.types import EDIT_TYPES
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.runs.attempt import OpenItems
from counterpose_gateway.runs.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.services.ports import Services

EDITS = 2
"""Edits of each type that are asked for of a caption."""


def captions_to_edit(config: BugHuntConfig, hunt: RecordedHunt, label: str) -> list[HuntedItem]:
    """Return the baseline images whose captions are to be edited, the first ones, whatever their answers."""
    needed = -(-config.shares.varied // (EDITS * len(EDIT_TYPES)))
    made = [item for item in hunt.of_label("baseline", label) if item.state == "done"]
    return made[:needed]


def plan_varied(config: BugHuntConfig, hunt: RecordedHunt, label: str, most: int) -> Iterator[PlannedItem]:
    """Plan one image of each edited caption of a label, in turns over the captions, until there are enough.

    An edit that lost the label or names another class is left out.
    """
    edits = [
        item.result.edited
        for item in hunt.captions
        if item.label == label and item.result is not None and item.result.edited
    ]
    in_turns = (text for turn in zip_longest(*edits) for text in turn if text is not None)
    prompts = list(dict.fromkeys(text for text in in_turns if is_usable(text, label, config.classes)))
    for place in range(most if prompts else 0):
        told = HuntInstruction(phase="varied", prompt=prompts[place % len(prompts)])
        yield from plan_samples(config, label, told, range(place, place + 1))


async def edited(
    attempt: OpenItems, captions: Sequence[tuple[LeasedItem, str]], seed: int, services: Services
) -> dict[str, list[str]]:
    """Return what the language model makes of each item's caption, by the item's id.

    Args:
        attempt: the items' attempt.
        captions: those of its items that are to be edited, with their captions.
        seed: the run's seed.
        services: the services.
    """
    found: dict[str, list[str]] = {}
    asked = [
        PerturbItem(
            caption=text,
            perturbation_type=edit_type,
            n=EDITS,
            seed=derive_seed(seed, edit_type, item.label, item.slot),
        )
        for item, text in captions
        for edit_type in EDIT_TYPES
    ]
    owners = [item for item, _ in captions for _ in EDIT_TYPES]
    for start in range(0, len(asked), MAX_BATCH):
        part = asked[start : start + MAX_BATCH]
        response = await attempt.call("perturber", services.perturber.perturb, PerturbRequest(items=part))
        outcomes = attempt.outcomes("perturber", response)
        for item, outcome in zip(owners[start : start + MAX_BATCH], outcomes, strict=True):
            # A caption that cannot be edited has no edits; it is a caption all the same.
            edits = outcome.value.edits if outcome.value is not None else []
            found.setdefault(item.id, []).extend(each.edited_caption for each in edits)
    return found
