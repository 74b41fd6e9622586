"""The failure rate of a mixture of prompts with known shares, however rare failures are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.descriptions import other_classes
from counterpose_core.bug_hunt.rare import Stratum, divide, rare_rate
from counterpose_core.contract.bug_hunt_summary import ComponentRate, MixtureRate
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntInstruction
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_core.text.class_prompts import CLASS_SLOT, check_prompt, fill
from counterpose_core.types import Estimate
from counterpose_gateway.methods.bug_hunt.counting import SampleKey
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.reports.numbers import rare_percent
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.steps.examples import Example
from counterpose_gateway.steps.failed_samples import Counted
from counterpose_gateway.steps.failure_rates import failure_rate

PILOT = 32
"""Images of a prompt by which the mixture's are divided; the hunt's own images of it are among them."""
_PILOT_PART = 4
"""A pilot takes at most one in four of the mixture's images."""
_OF_PROMPTS = ("baseline", "hypothesis", "refinement", "held-out", "pilot")
"""Phases whose images all have the prompt that they are recorded under."""


@dataclass(frozen=True)
class Component:
    """A prompt of a label's mixture; number 0 is the label alone."""

    number: int
    prompt: str
    share: float


def components_of(config: BugHuntConfig, label: str) -> list[Component]:
    """Return the prompts of a label's mixture: the request's, then the label alone if a share is left.

    Last, so that minutes that run out take images from the largest, as a rule, and from none all of them.
    """
    asked = config.request.mixture
    if asked is None:
        return []
    found = [
        Component(number, fill(each.prompt, label), each.share)
        for number, each in enumerate(asked.components, start=1)
    ]
    alone = Component(0, config.prompts[label], asked.alone)
    return [*found, alone] if alone.share else found


def examples_of_mixture(create: BugHuntCreate, classes: Sequence[str]) -> list[Example]:
    """Check the prompts of the mixture, and return an image of each for the first label.

    Raises:
        InvalidRequest: a prompt is not plain text, has not one slot, or names a class; the pointer is
            ``/mixture/components/<place>/prompt``.
        PromptTooLong: it has more words than any text encoder reads.
    """
    label, found = create.labels[0], list[Example]()
    for place, each in enumerate(create.mixture.components if create.mixture else ()):
        pointer = f"/mixture/components/{place}/prompt"
        try:
            check_prompt(each.prompt)
        except (InvalidRequest, PromptTooLong) as error:
            error.pointer = pointer
            raise
        # Whatever the label is.
        if others := other_classes(each.prompt.replace(CLASS_SLOT, ""), "", classes):
            raise InvalidRequest(
                f"the prompt {each.prompt!r} names another class, {others[0]!r}: an image that shows both "
                "would be no failure",
                pointer=pointer,
            )
        seed, prompt = derive_seed(create.seed, "mixture", label, 0), fill(each.prompt, label)
        found.append(Example(prompt, pointer, GenerateItem(prompt=prompt, seed=seed)))
    return found


def plan_mixture(hunt: Hunt) -> list[PlannedItem]:
    """Plan a pilot of each prompt that the hunt has too few images of, then the images of the mixture.

    Nothing where none is asked for, or where it is planned already.
    """
    if hunt.request.mixture is None or hunt.record.has("mixture"):
        return []
    pilot = [] if hunt.record.has("pilot") else list(_pilot(hunt))
    return pilot or list(_divided(hunt))


def _pilot(hunt: Hunt) -> Iterator[PlannedItem]:
    labels = hunt.request.labels
    for label in labels:
        components = components_of(hunt.config, label)
        size = min(PILOT, hunt.config.shares.mixture // (_PILOT_PART * len(components)))
        size = hunt.cap(size, len(components) * len(labels), "pilot")
        for each in components:
            seen = sum(len(hunt.record.of_label(*key)) for key in _seen(hunt, label, each.prompt))
            first = each.number * PILOT
            told = HuntInstruction(phase="pilot", prompt=each.prompt, component=each.number)
            yield from plan_samples(hunt.config, label, told, range(first, first + max(0, size - seen)))


def _divided(hunt: Hunt) -> Iterator[PlannedItem]:
    """New images of all prompts, each from noise of its own: strata must not fail together."""
    labels = hunt.request.labels
    for label in labels:
        components = components_of(hunt.config, label)
        spent = sum(len(hunt.record.of_label("pilot", label, each.number)) for each in components)
        images = hunt.cap(hunt.config.shares.mixture - spent, len(labels), "mixture")
        if images < len(components):
            continue
        pilots = [
            [_pilot_counts(hunt, label, classifier, each.prompt) for each in components]
            for classifier in hunt.request.classifiers
        ]
        divided = divide([each.share for each in components], pilots, images)
        ends = [sum(divided[:place]) for place in range(len(divided) + 1)]
        for each, (start, end) in zip(components, pairwise(ends), strict=True):
            told = HuntInstruction(phase="mixture", prompt=each.prompt, component=each.number)
            yield from plan_samples(hunt.config, label, told, range(start, end))


def _seen(hunt: Hunt, label: str, prompt: str) -> list[SampleKey]:
    """The keys of the hunt's images of this prompt, which may be a label's or a description's."""
    wanted = prompt.casefold()
    return [
        key
        for key, items in hunt.record.samples.items()
        if key[0] in _OF_PROMPTS and key[1] == label and _prompt(items[0]).casefold() == wanted
    ]


def _prompt(item: HuntedItem) -> str:
    return item.instruction.prompt or "" if item.instruction is not None else ""


def _pilot_counts(hunt: Hunt, label: str, classifier: str, prompt: str) -> FailureCounts:
    seen, count = _seen(hunt, label, prompt), hunt.record.counted
    counted = [count(phase, of, classifier, number).counts for phase, of, number in seen]
    return FailureCounts(sum(each.failures for each in counted), sum(each.images for each in counted))


def mixture_rates(hunt: Hunt) -> list[MixtureRate]:
    """Return the failure rate of each label's mixture for each classifier, once its images are planned.

    Images that count neither as failure nor as success are left out of their prompt, as everywhere.
    """
    if not hunt.record.has("mixture"):
        return []
    return [
        _rate(hunt, label, classifier)
        for label in hunt.request.labels
        for classifier in hunt.request.classifiers
    ]


def _rate(hunt: Hunt, label: str, classifier: str) -> MixtureRate:
    components = components_of(hunt.config, label)
    counted = [hunt.record.counted("mixture", label, classifier, each.number) for each in components]
    rate = _estimate(components, counted)
    pilots = [_pilot_counts(hunt, label, classifier, each.prompt) for each in components]
    return MixtureRate(
        label=label,
        classifier=classifier,
        rate=rate,
        components=[
            ComponentRate(
                number=each.number,
                prompt=each.prompt,
                share=each.share,
                pilot_images=pilot.images,
                pilot_failures=pilot.failures,
                failure=failure_rate(found, hunt.request.criterion),
            )
            for each, pilot, found in zip(components, pilots, counted, strict=True)
        ],
        sentence=_sentence(label, classifier, rate),
    )


def _estimate(components: Sequence[Component], counted: Sequence[Counted[HuntedItem]]) -> Estimate:
    counts = [each.counts for each in counted]
    if not all(each.images for each in counts):
        # A prompt that has no image may fail as often as it likes.
        return Estimate(estimate=None, low=None, high=None, n=sum(each.images for each in counts))
    return rare_rate(
        [
            Stratum(component.share, each.failures, each.images)
            for component, each in zip(components, counts, strict=True)
        ]
    )


def _sentence(label: str, classifier: str, rate: Estimate) -> str:
    if rate.estimate is None or rate.low is None or rate.high is None:
        return (
            f"{classifier}: the rate of {label} in the mixture is not known yet; {rate.n} of its images count"
        )
    return (
        f"{classifier} fails on {rare_percent(rate.estimate)} of images of {label} in the mixture "
        f"({rare_percent(rate.low)} to {rare_percent(rate.high)}, {rate.n} images)"
    )
