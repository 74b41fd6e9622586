"""Masks that a suite's segmenter makes, where images have none of their own, and what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from counterpose_core.contract.scorer import Segment, SegmentItem, SegmentRequest
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import MaskSummary, OperationFigure
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.transforms.table import operation
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.material import Material
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls

_Place = tuple[str, str]
"""An image and the class of its object."""


async def segmented(
    calls: Calls, config: StressTestConfig, item: LeasedItem, material: Material
) -> tuple[Material, Segment | None]:
    """Have the segmenter outline what has no mask; of a photograph that has one, hold the two together.

    Operations for which a mask is still missing are left out by name.

    Raises:
        BackendError: the segmenter is down.
    """
    plan = config.transforms
    if plan is None or plan.segmenter is None:
        return material, None
    names = [name for name in plan.operations if operation(name).needs_mask and name not in material.left_out]
    if not names:
        return material, None
    own = (item.source_image, item.label)
    places = [own, *(place for name in names if (place := _unmasked(material.others.get(name))) is not None)]
    places = list(dict.fromkeys(places))
    asked = [
        SegmentItem(image=image, label=label, exact=material.mask if (image, label) == own else None)
        for image, label in places
    ]
    scorer = calls.services.scorer
    outcomes = await calls.ask("scorer", scorer.segment, SegmentRequest(items=asked), model="segmenter")
    found = {place: outcome.unwrap() for place, outcome in zip(places, outcomes, strict=True)}
    mask = material.mask or found[own].mask
    left_out, others = dict(material.left_out), dict(material.others)
    for name in names:
        if mask is None:
            left_out[name] = f"it needs a mask of the object, and {found[own].why}"
        elif (other := _unmasked(material.others.get(name))) is not None:
            others[name] = [other[0], found[other].mask]
            if found[other].mask is None:
                left_out[name] = f"it needs the mask of another photograph, and {found[other].why}"
    return replace(material, mask=mask, others=others, left_out=left_out), found[own]


def _unmasked(other: Sequence[str | None] | None) -> _Place | None:
    """The other photograph of an operation that has no mask of its own, with its class."""
    if other is None or len(other) < 3:
        return None
    image, _, label = other
    return (image, label) if image is not None and label is not None else None


def trusted_masks(
    config: StressTestConfig,
    segments: Mapping[str, Segment | None],
    answered: Iterable[OperationAnswers],
    estimator: LanceEstimator,
) -> MaskSummary | None:
    """Sum up what a segmenter made of a run's images, by image; None where no segmenter was asked.

    Where its masks miss those that are known, the images that have no other are left out of ``answered``.
    """
    plan = config.transforms
    if plan is None or plan.segmenter is None:
        return None
    asked = {source: each for source, each in segments.items() if each is not None}
    made = {source: each for source, each in asked.items() if each.overlap is None}
    known = [each.overlap for each in asked.values() if each.overlap is not None]
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    generator = estimator.generator("operation/segmenter/overlap")
    masks = MaskSummary(
        segmenter=plan.segmenter,
        images=sum(each.mask is not None for each in made.values()),
        missing=dict(Counter(each.why for each in made.values() if each.mask is None)),
        overlap=bounded_mean(known, generator, bounds=(0.0, 1.0)) if known else nothing,
    )
    if masks.distrust:
        for found in answered:
            found.forget_masks((name for name, each in made.items() if each.mask), masks.distrust)
    return masks


def with_masks(figure: OperationFigure, masks: MaskSummary | None) -> OperationFigure:
    """The figure of an operation, whose sentence says where masks come from if a segmenter made some."""
    if masks is None or not masks.images or masks.distrust or not operation(figure.operation).needs_mask:
        return figure
    return figure.model_copy(update={"sentence": f"{figure.sentence} {masks.sentence}"})
