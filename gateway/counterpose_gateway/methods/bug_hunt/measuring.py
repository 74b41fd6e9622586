"""Descriptions of the user's own: checked, and measured on held-out images beside the label alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.bug_hunt.descriptions import named_label, other_classes
from counterpose_core.bug_hunt.parts import beside
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntInstruction, HuntShares
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_core.text.class_prompts import LONGEST_PROMPT
from counterpose_core.text.plain_text import check_caption
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.steps.examples import Example


@dataclass(frozen=True)
class OwnDescription:
    """A description that the user wrote, and the label that it names."""

    number: int
    label: str
    prompt: str


def own_descriptions(
    create: BugHuntCreate, classes: Sequence[str], templates: Mapping[str, str]
) -> list[OwnDescription]:
    """Check the request's descriptions; each names one of its labels.

    ``templates``: the baseline's prompt of each label.

    Raises:
        InvalidRequest: a description is not plain text, names no label, names another class, or adds no word
            to the label; the pointer is ``/descriptions/<place>``.
        PromptTooLong: it has more words than any text encoder reads.
    """
    found: list[OwnDescription] = []
    for place, text in enumerate(create.descriptions):
        pointer, prompt = f"/descriptions/{place}", " ".join(text.split())
        try:
            check_caption(prompt, most=LONGEST_PROMPT, field="description")
        except (InvalidRequest, PromptTooLong) as error:
            error.pointer = pointer
            raise
        label = named_label(prompt, create.labels)
        if label is None:
            labels = ", ".join(map(repr, create.labels[:8]))
            raise InvalidRequest(f"the description {text!r} names none of {labels}", pointer=pointer)
        if others := other_classes(prompt, label, classes):
            raise InvalidRequest(
                f"the description {text!r} of {label!r} names another class, {others[0]!r}: an image that "
                "shows both would be no failure",
                pointer=pointer,
            )
        if not beside(prompt, templates[label], label):
            raise InvalidRequest(f"the description {text!r} adds nothing to {label!r}", pointer=pointer)
        found.append(OwnDescription(place + 1, label, prompt))
    return found


def own_shares(create: BugHuntCreate, own: Sequence[OwnDescription]) -> HuntShares:
    """Return the images of each prompt.

    Raises:
        InvalidRequest: the budget is too small for them.
    """
    prompts = len(own) + len({each.label for each in own})
    mixture = 0 if create.mixture is None else create.mixture.images
    least = prompts * create.held_out + mixture * len(create.labels)
    if least > create.budget.images:
        mixed = f", and the mixture {mixture} of each label" if mixture else ""
        raise InvalidRequest(
            f"a budget of {create.budget.images} images is too small: {prompts} prompts, those of the labels "
            f"alone among them, have {create.held_out} held-out images each{mixed}; allow {least}, or lower "
            "held_out",
            pointer="/budget/images",
        )
    return HuntShares(baseline=0, hypotheses=0, held_out=create.held_out, mixture=mixture)


def examples_of_own(own: Sequence[OwnDescription], seed: int) -> list[Example]:
    """Return an image of each description, to see whether the generator knows its words."""
    return [
        Example(
            each.prompt,
            f"/descriptions/{place}",
            GenerateItem(prompt=each.prompt, seed=derive_seed(seed, "held-out", each.label, 0)),
        )
        for place, each in enumerate(own)
    ]


def plan_own(config: BugHuntConfig, own: Sequence[OwnDescription], size: int) -> Iterator[PlannedItem]:
    """Plan held-out images of each description and, from the same noise, of its label alone."""
    for label in dict.fromkeys(each.label for each in own):
        base = HuntInstruction(phase="held-out", prompt=config.prompts[label])
        yield from plan_samples(config, label, base, range(size))
        for each in own:
            if each.label == label:
                yield from plan_samples(config, label, _instruction(config, each), range(size))


def _instruction(config: BugHuntConfig, own: OwnDescription) -> HuntInstruction:
    return HuntInstruction(
        phase="held-out",
        prompt=own.prompt,
        hypothesis=own.number,
        source="user",
        words=beside(own.prompt, config.templates[own.label], own.label),
        classifiers=list(config.request.classifiers),
    )
