"""Images of edited captions: scenes that the label alone hardly ever shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from counterpose_core.bug_hunt.coverage import balanced
from counterpose_core.bug_hunt.descriptions import tokens, usable
from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.bug_hunt_summary import EditedCaptions, EditedFailure
from counterpose_core.contract.bug_hunts import HuntInstruction
from counterpose_core.contract.perturber import PerturbItem, PerturbRequest
from counterpose_core.types import EDIT_TYPES
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.steps.failure_rates import failure_rate, taken_for
from counterpose_gateway.steps.generation import MALFORMED, is_well_formed

EDITS = 4
"""Edits of each type that are asked for of a caption."""
SHOWN_FAILURES = 12
_POOL = 4
"""Edits that are asked for, as a multiple of the images: many say the same, and the rest is chosen among."""
REPEATED = "repeated"
"""The reason of an edit that says what another one says."""


@dataclass(frozen=True)
class Edits:
    """The different edited captions of a label that can be drawn, and the others by reason."""

    captions: list[str]
    dropped: Counter[str]


def captions_to_edit(hunt: Hunt, label: str) -> list[HuntedItem]:
    """Return the baseline images whose captions are to be edited, the first ones, whatever their answers."""
    needed = -(-_POOL * hunt.config.shares.varied // (EDITS * len(EDIT_TYPES)))
    made = [item for item in hunt.record.of_label("baseline", label) if item.state == "done"]
    return made[:needed]


def edits_of(hunt: Hunt, label: str) -> Edits:
    """Return the edited captions of a label, in turns over the captions.

    An edit that lost the label, names another class, is no plain text or says what another one does is
    dropped.
    """
    in_turns = [
        text for turn in zip_longest(*hunt.record.edited.get(label, ())) for text in turn if text is not None
    ]
    well_formed = [text for text in in_turns if is_well_formed(text)]
    dropped = Counter({MALFORMED: len(in_turns) - len(well_formed)})
    named = usable(well_formed, label, hunt.config.classes, dropped)
    different: dict[tuple[str, ...], str] = {}
    for text in named:
        different.setdefault(tuple(tokens(text)), text)
    dropped[REPEATED] = len(named) - len(different)
    return Edits(list(different.values()), +dropped)


def plan_varied(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan images of edited captions, those first that say what others do not, unless they are made.

    No caption is drawn twice: where the language model had fewer of them than images, the rest is not made.
    """
    if hunt.record.has("varied"):
        return
    labels = hunt.request.labels
    most = hunt.cap(hunt.config.shares.varied, len(labels), "varied")
    for label in labels:
        for place, prompt in enumerate(balanced(edits_of(hunt, label).captions, label, most)):
            told = HuntInstruction(phase="varied", prompt=prompt)
            yield from plan_samples(hunt.config, label, told, range(place, place + 1))


def edited_captions(hunt: Hunt) -> list[EditedCaptions]:
    """Return what became of the images of edited captions, by label and classifier."""
    found: list[EditedCaptions] = []
    for label in hunt.request.labels:
        if not (items := hunt.record.of_label("varied", label)):
            continue
        drawn = {item.instruction.prompt for item in items if item.instruction is not None}
        edits = edits_of(hunt, label)
        # Where captions are left over it is the time that was too short for more images.
        lacking = hunt.config.shares.varied - len(items) if len(items) == len(edits.captions) else 0
        for classifier in hunt.request.classifiers:
            counted = hunt.record.counted("varied", label, classifier)
            found.append(
                EditedCaptions(
                    label=label,
                    classifier=classifier,
                    captions=len(drawn),
                    lacking=lacking,
                    dropped=dict(edits.dropped),
                    failure=failure_rate(counted, hunt.request.criterion),
                    taken_for=taken_for(counted, classifier, label),
                    failed=[
                        EditedFailure(
                            item=item.id,
                            image=item.result.image,
                            answer=item.result.predictions[classifier].answer,
                            caption=item.instruction.prompt or "",
                        )
                        for item in counted.failures[:SHOWN_FAILURES]
                        if item.result is not None and item.instruction is not None
                    ],
                )
            )
    return found


async def edited(calls: Calls, captions: Sequence[tuple[LeasedItem, str]], seed: int) -> dict[str, list[str]]:
    """Return what the language model makes of each item's caption, by its id; ``seed`` is the run's."""
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
        request = PerturbRequest(items=asked[start : start + MAX_BATCH])
        perturb = calls.services.perturber.perturb
        outcomes = await calls.ask("perturber", perturb, request, is_costed=False)
        for item, outcome in zip(owners[start : start + MAX_BATCH], outcomes, strict=True):
            # A caption that cannot be edited has no edits; it is a caption all the same.
            edits = outcome.value.edits if outcome.value is not None else []
            found.setdefault(item.id, []).extend(each.edited_caption for each in edits)
    return found
