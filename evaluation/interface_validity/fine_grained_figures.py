"""How well tokens tell apart codes that no generator has read, by the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import Estimate
from evaluation.interface_validity.fine_grained_world import FINE_CLASSES
from evaluation.validity.measures import clustered_share, resampled

from .fine_grained_images import ANOTHER_BUS, NO_BUS, FineGrained, FineImage, FineImageSource, words_of
from .report import FineGrainedFigures, FineImageSourceFigures

Shows = Callable[[FineImage], bool]


def fine_grained_figures(found: FineGrained, generator: np.random.Generator) -> FineGrainedFigures:
    """Compare the image sources, with the token's lead over the word that it started from."""

    def of(image_source: FineImageSource) -> FineImageSourceFigures:
        return _of_image_source([one for one in found.images if one.image_source == image_source], generator)

    shifts = dict.fromkeys(one.shift for one in found.images if one.shift != BASE)
    return FineGrainedFigures(
        codes={code: words_of("description", code) or "" for code in FINE_CLASSES},
        shifts=list(shifts),
        shares={code: list(each) for code, each in found.shares.items()},
        token=of("token"),
        shared_word=of("shared-word"),
        description=of("description"),
        above_shared_word=_above_shared_word(found.images, generator),
    )


def _of_image_source(images: Sequence[FineImage], generator: np.random.Generator) -> FineImageSourceFigures:
    def share(shows: Shows, of: Sequence[FineImage] = images) -> Estimate:
        return clustered_share([(_cluster(one), shows(one)) for one in of], generator)

    shows_code: Shows = attrgetter("shows_code")
    return FineImageSourceFigures(
        code=share(shows_code),
        kind=share(attrgetter("shows_kind")),
        colour=share(attrgetter("shows_colour")),
        object_class=share(attrgetter("shows_object")),
        shift_presence=share(attrgetter("shows_shift"), [one for one in images if one.shift != BASE]),
        by_code={name: share(shows_code, each) for name, each in _grouped(images, "code").items()},
        by_condition={name: share(shows_code, each) for name, each in _grouped(images, "shift").items()},
        confusion=_confusion(images),
    )


def _grouped(images: Sequence[FineImage], by: str) -> Mapping[str, list[FineImage]]:
    found: dict[str, list[FineImage]] = {}
    for one in images:
        found.setdefault(getattr(one, by), []).append(one)
    return found


def _confusion(images: Sequence[FineImage]) -> dict[str, dict[str, int]]:
    columns = (*FINE_CLASSES, ANOTHER_BUS, NO_BUS)
    found = {code: Counter(one.shown for one in each) for code, each in _grouped(images, "code").items()}
    return {code: {name: counts[name] for name in columns} for code, counts in found.items()}


def _cluster(one: FineImage) -> str:
    """Images of a code and seed share their noise."""
    return f"{one.code} {one.seed}"


def _above_shared_word(images: Sequence[FineImage], generator: np.random.Generator) -> Estimate:
    """The difference of both shares over seeds drawn with replacement; n counts images of both."""
    rows = [one for one in images if one.image_source in ("token", "shared-word")]
    shown = np.array([one.shows_code for one in rows], dtype=np.bool_)
    token = np.array([one.image_source == "token" for one in rows], dtype=np.bool_)

    def lead(drawn: NDArray[np.intp]) -> float | None:
        mine, other = shown[drawn][token[drawn]], shown[drawn][~token[drawn]]
        return float(mine.mean() - other.mean()) if mine.size and other.size else None

    return resampled(lead, [_cluster(one) for one in rows], generator)
