"""How far a run's generated pictures lie from its originals, by recorded features (LANCE, section 4.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.contract.features import FeatureVector
from faultline_core.contract.realism import RealismRow, RealismSummary
from faultline_core.contract.runs import Item, ItemResult
from faultline_core.realism import FrechetDistance, Refused, frechet_distance, halves, kernel_distance
from faultline_core.statistics import Floats
from faultline_core.types import EDIT_TYPES, Estimate
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.records import CLIP

ORIGINAL = "original"
ROWS = ("reconstruction", "lance-r", "counterfactual")


@dataclass(frozen=True)
class _Picture:
    source: str
    weights: str
    vector: FeatureVector

    @property
    def kind(self) -> tuple[str, int]:
        """Only features of one kind compare: the weights that gave them, and their width."""
        return self.weights, self.vector.width


@dataclass(frozen=True)
class _Set:
    """Features (n, d) of pictures and the source of each."""

    features: Floats
    sources: list[str]


def summarize_realism(items: Sequence[Item], estimator: Estimator) -> RealismSummary | None:
    """Measure each set of pictures against the originals; None where no features were recorded."""
    seen = _by_row(items)
    kinds = Counter(picture.kind for picture in seen.get(ORIGINAL, []))
    if not kinds:
        return None
    kind = max(sorted(kinds), key=kinds.__getitem__)
    sets = {row: _scaled([one for one in pictures if one.kind == kind]) for row, pictures in seen.items()}
    originals = sets[ORIGINAL]

    def measured(rows: Sequence[str]) -> dict[str, RealismRow]:
        found = {row: sets[row] for row in rows if row in sets and sets[row].sources}
        return {row: _row(row, originals, pictures, estimator) for row, pictures in found.items()}

    of_types = measured(EDIT_TYPES)
    return RealismSummary(
        network=kind[0],
        width=kind[1],
        n_originals=len(originals.sources),
        floor=_floor(originals, estimator),
        rows=measured(ROWS),
        edit_types={name: row for name, row in of_types.items() if row.kernel is not None},
    )


def _by_row(items: Sequence[Item]) -> Mapping[str, list[_Picture]]:
    seen: dict[str, list[_Picture]] = {}
    for item in items:
        if item.state == "done" and item.result is not None:
            weights = item.result.models.get(CLIP, "")
            for row, vector in _vectors(item, item.result):
                if vector is not None:
                    seen.setdefault(row, []).append(_Picture(item.source_id, weights, vector))
    return seen


def _vectors(item: Item, result: ItemResult) -> Iterator[tuple[str, FeatureVector | None]]:
    if item.kind == "edit":
        yield "counterfactual", result.image_features
        yield item.edit_type or "", result.image_features
    else:
        yield item.kind, result.image_features
        yield ORIGINAL, result.source_features


def _scaled(pictures: Sequence[_Picture]) -> _Set:
    features = np.array([one.vector.numbers() for one in pictures])
    # Of unit vectors x·y/d is so small that the kernel would see means only.
    scale = math.sqrt(features.shape[1]) if pictures else 1.0
    return _Set(features * scale, [one.source for one in pictures])


def _row(name: str, originals: _Set, made: _Set, estimator: Estimator) -> RealismRow:
    kernel = kernel_distance(
        originals.features,
        made.features,
        estimator.generator(f"realism/{name}"),
        sources=(originals.sources, made.sources),
    )
    return _told(kernel, frechet_distance(originals.features, made.features), made.sources)


def _floor(originals: _Set, estimator: Estimator) -> RealismRow:
    """The distances of two random halves of the originals, one picture a source."""
    generator = estimator.generator("realism/floor")
    first, second = halves(originals.features, generator)
    kernel = kernel_distance(first, second, generator)
    return _told(kernel, frechet_distance(first, second), originals.sources)


def _told(
    kernel: Estimate | Refused, frechet: FrechetDistance | Refused, sources: Sequence[str]
) -> RealismRow:
    return RealismRow(
        kernel=None if isinstance(kernel, Refused) else kernel,
        no_kernel=kernel.reason if isinstance(kernel, Refused) else "",
        frechet=None if isinstance(frechet, Refused) else frechet.distance,
        no_frechet=frechet.reason if isinstance(frechet, Refused) else "",
        n_images=len(sources),
        n_sources=len(set(sources)),
    )
