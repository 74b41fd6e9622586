"""How close a run's counterfactuals are to its originals (LANCE, section 4.1).

Realism compares recorded features of images, perplexity the recorded likelihoods of their captions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from faultline_core.contract.features import FeatureVector
from faultline_core.contract.perturber import TextLikelihood
from faultline_core.contract.realism import PerplexityRow, PerplexitySummary, RealismRow, RealismSummary
from faultline_core.contract.runs import Item, ItemResult
from faultline_core.images.realism import FrechetDistance, Refused, frechet_distance, halves, kernel_distance
from faultline_core.statistics.bootstrap import Floats
from faultline_core.text.perplexity import perplexity
from faultline_core.types import EDIT_TYPES, Estimate, ItemKind
from faultline_gateway.methods.stress_test.features import CLIP, LANGUAGE_MODEL
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator

ORIGINAL = "original"
REALISM_ROWS = ("reconstruction", "lance-r", "counterfactual")
CAPTIONED_ITEMS: Mapping[str, ItemKind] = MappingProxyType(
    {"original": "reconstruction", "placebo": "placebo", "lance-r": "lance-r", "counterfactual": "edit"}
)
"""Row of the summary → the kind of items whose captions it covers; a reconstruction has the original's."""

_Weighed = tuple[str, TextLikelihood]


@dataclass(frozen=True)
class _Image:
    source: str
    weights: str
    vector: FeatureVector

    @property
    def kind(self) -> tuple[str, int]:
        """Only features of one kind can be compared: from the same weights, with the same width."""
        return self.weights, self.vector.width


@dataclass(frozen=True)
class _Set:
    """Features (n, d) of images and the source of each."""

    features: Floats
    sources: list[str]


def summarize_realism(items: Sequence[Item], estimator: LanceEstimator) -> RealismSummary | None:
    """Measure each set of images against the originals; None if no features were recorded."""
    seen = _by_row(items, estimator)
    kinds = Counter(image.kind for image in seen.get(ORIGINAL, []))
    if not kinds:
        return None
    kind = max(sorted(kinds), key=kinds.__getitem__)
    sets = {row: _scaled([shown for shown in images if shown.kind == kind]) for row, images in seen.items()}
    originals = sets[ORIGINAL]

    def measured(rows: Sequence[str]) -> dict[str, RealismRow]:
        known = {row: sets[row] for row in rows if row in sets and sets[row].sources}
        return {row: _realism_row(row, originals, images, estimator) for row, images in known.items()}

    of_types = measured(EDIT_TYPES)
    return RealismSummary(
        network=kind[0],
        width=kind[1],
        n_originals=len(originals.sources),
        floor=_floor(originals, estimator),
        rows=measured(REALISM_ROWS),
        edit_types={name: row for name, row in of_types.items() if row.kernel is not None},
    )


def _by_row(items: Sequence[Item], estimator: LanceEstimator) -> Mapping[str, list[_Image]]:
    seen: dict[str, list[_Image]] = {}
    for item in items:
        if item.state == "done" and item.result is not None:
            weights = item.result.models.get(CLIP, "")
            for row, vector in _vectors(item, item.result):
                if vector is not None:
                    seen.setdefault(row, []).append(_Image(estimator.unit(item), weights, vector))
    return seen


def _vectors(item: Item, result: ItemResult) -> Iterator[tuple[str, FeatureVector | None]]:
    if item.kind == "edit":
        yield "counterfactual", result.image_features
        yield item.edit_type or "", result.image_features
    else:
        yield item.kind, result.image_features
        yield ORIGINAL, result.source_features


def _scaled(images: Sequence[_Image]) -> _Set:
    features = np.array([shown.vector.numbers() for shown in images])
    # For unit vectors x·y/d is so small that the kernel would compare only means.
    scale = math.sqrt(features.shape[1]) if images else 1.0
    return _Set(features * scale, [shown.source for shown in images])


def _realism_row(name: str, originals: _Set, generated: _Set, estimator: LanceEstimator) -> RealismRow:
    kernel = kernel_distance(
        originals.features,
        generated.features,
        estimator.generator(f"realism/{name}"),
        sources=(originals.sources, generated.sources),
    )
    return _distances_row(kernel, frechet_distance(originals.features, generated.features), generated.sources)


def _floor(originals: _Set, estimator: LanceEstimator) -> RealismRow:
    """The distances of two random halves of the originals, one image per source."""
    generator = estimator.generator("realism/floor")
    first, second = halves(originals.features, generator)
    kernel = kernel_distance(first, second, generator)
    return _distances_row(kernel, frechet_distance(first, second), originals.sources)


def _distances_row(
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


def summarize_perplexity(items: Sequence[Item], estimator: LanceEstimator) -> PerplexitySummary | None:
    """Measure each set of captions; None if the run recorded no likelihoods."""
    seen: dict[tuple[str, ItemKind], list[_Weighed]] = {}
    for item in items:
        if item.state == "done" and item.result is not None and item.result.likelihood is not None:
            model = item.result.models.get(LANGUAGE_MODEL, "")
            seen.setdefault((model, item.kind), []).append((estimator.unit(item), item.result.likelihood))
    counts = Counter({model: 0 for model, _ in seen})
    for (model, _), weighed in seen.items():
        counts[model] += len(weighed)
    if not counts:
        return None
    # Figures of two models cannot be compared: the one with the most captions is reported.
    language_model = max(sorted(counts), key=counts.__getitem__)
    rows = {
        row: seen[language_model, kind]
        for row, kind in CAPTIONED_ITEMS.items()
        if (language_model, kind) in seen
    }
    return PerplexitySummary(
        language_model=language_model,
        rows={row: _perplexity_row(row, weighed, language_model, estimator) for row, weighed in rows.items()},
    )


def _perplexity_row(
    name: str, weighed: Sequence[_Weighed], model: str, estimator: LanceEstimator
) -> PerplexityRow:
    # One entry per source: its captions share most of their words.
    entries: dict[str, tuple[float, int]] = {}
    for source, likelihood in weighed:
        nats, number = entries.get(source, (0.0, 0))
        entries[source] = (nats + likelihood.nats, number + likelihood.tokens)
    measured = perplexity(
        list(entries.values()), estimator.generator(f"perplexity/{name}"), language_model=model
    )
    return PerplexityRow(
        perplexity=None if isinstance(measured, Refused) else measured.perplexity,
        no_perplexity=measured.reason if isinstance(measured, Refused) else "",
        tokens=sum(likelihood.tokens for _, likelihood in weighed),
        n_captions=len(weighed),
    )
