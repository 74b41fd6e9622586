"""Items of a shift benchmark's run as images of a validation, with the verdicts of the product's filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageResult
from counterpose_core.shift_benchmark.shifts import BASE

from .images import Image, ImageSource, Seen
from .world_shifts import BY_NAME


def images_of(
    items: Iterable[ImageItem], seen: Mapping[str, Seen], summary: ShiftBenchmarkSummary
) -> list[Image]:
    """Read the generated images of a run; ``seen`` is what the oracle sees in each, by item id.

    Images of other image sources, and items without a result, are left out. An answer is right where the
    true class has rank 1. ``summary`` has the thresholds in force.
    """
    image_sources = {image_source: image_source for image_source in get_args(ImageSource)}
    return [
        Image(
            id=item.id,
            image_source=image_sources[result.image_source],
            class_name=item.label,
            shift=result.shift,
            seed=result.seed or 0,
            to_object=result.object_similarity,
            right={model: pair.right for model, pair in result.predictions.items()},
            seen=seen[item.id],
            has_object=result.object_similarity >= _object_threshold(summary, item.label, result.shift),
            has_shift=_has_shift(summary, result),
            group=item.item_group,
            cost=result.cost,
        )
        for item in items
        if (result := item.result) is not None and result.image_source in image_sources
    ]


def checked(images: Sequence[Image], summary: ShiftBenchmarkSummary) -> list[Image]:
    """Return the images if the number kept of each image source and condition equals the summary's.

    Raises:
        ValueError: it does not.
    """
    found = Counter((one.image_source, one.shift) for one in images if one.has_object and one.has_shift)
    for image_source in get_args(ImageSource):
        summarised = summary.image_sources[image_source]
        for shift, condition in {BASE: summarised.base, **summarised.shifts}.items():
            if found[image_source, shift] != condition.counts.kept:
                kept = condition.counts.kept
                raise ValueError(
                    f"{image_source}, {shift!r}: {found[image_source, shift]} kept here, {kept} by gateway"
                )
    return list(images)


def _object_threshold(summary: ShiftBenchmarkSummary, class_name: str, shift: str) -> float:
    of_class = summary.real.thresholds.get(class_name)
    if of_class is None:
        return -1.0
    style = shift != BASE and BY_NAME[shift].shift.is_style
    found = (of_class.plain if style else of_class.threshold).estimate
    return -1.0 if found is None else found


def _has_shift(summary: ShiftBenchmarkSummary, result: ImageResult) -> bool:
    if result.shift == BASE:
        return True
    if result.shift_similarity is None:
        raise ValueError(f"an image of {result.shift!r} has no similarity to it")
    known = summary.image_sources[result.image_source].shifts[result.shift].threshold
    if known.threshold is None:
        return not known.nothing_passes
    return result.shift_similarity >= known.threshold
