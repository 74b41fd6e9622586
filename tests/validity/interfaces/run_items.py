"""Items of a shift benchmark's run as pictures of a validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from faultline_core.contract.shift_benchmarks import PictureItem
from faultline_core.shifts import BASE

from .pictures import Picture, Seen, Source


def pictures_of(items: Iterable[PictureItem], seen: Mapping[str, Seen]) -> list[Picture]:
    """Read the generated pictures of a run; ``seen`` is what the oracle sees in each, by item id.

    Pictures of other sources, and items that came to nothing, are left out. An answer is right where the
    true class has rank 1.
    """
    sources = {source: source for source in get_args(Source)}
    return [
        Picture(
            id=item.id,
            source=sources[result.source],
            class_name=item.label,
            shift=result.shift,
            seed=result.seed or 0,
            to_object=result.object_similarity,
            to_shift=_known(result.shift, result.shift_similarity),
            right={model: pair.rank_true == 1 for model, pair in result.predictions.items()},
            seen=seen[item.id],
            image=result.image,
            cost=result.cost,
        )
        for item in items
        if (result := item.result) is not None and result.source in sources
    ]


def _known(shift: str, similarity: float | None) -> float:
    if similarity is None and shift != BASE:
        raise ValueError(f"a picture of {shift!r} has no similarity to it")
    return 0.0 if similarity is None else similarity
