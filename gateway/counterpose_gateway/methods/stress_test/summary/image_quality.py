"""How close a run's counterfactuals are to its originals (LANCE, section 4.1).

Realism compares recorded features of images, perplexity the recorded likelihoods of their captions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from counterpose_core.contract.realism import PerplexityRow, PerplexitySummary, RealismRow, RealismSummary
from counterpose_core.images.realism import (
    FrechetDistance,
    Refused,
    frechet_distance,
    halves,
    kernel_distance,
)
from counterpose_core.statistics.coded import Flags, Floats, Ints, in_order
from counterpose_core.text.perplexity import perplexity
from counterpose_core.types import EDIT_TYPES, Estimate, ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator

ORIGINAL = "original"
REALISM_ROWS = ("reconstruction", "lance-r", "counterfactual")
CAPTIONED_ITEMS: Mapping[str, ItemKind] = MappingProxyType(
    {"original": "reconstruction", "placebo": "placebo", "lance-r": "lance-r", "counterfactual": "edit"}
)
"""Row of the summary → the kind of items whose captions it covers; a reconstruction has the original's."""

MOST_IMAGES = 2000
"""Of a larger set a random part is measured: the cost of a distance grows with the number of images."""


@dataclass(frozen=True)
class _Set:
    """Features (n, d) of images and the unit of each."""

    features: Floats
    sources: Ints


def summarize_realism(columns: ItemColumns, estimator: LanceEstimator) -> RealismSummary | None:
    """Measure each set of images of the screen against the originals; None if no features were recorded."""
    shown = columns.screened & columns.done
    originals_at = np.flatnonzero(shown & ~columns.of("kind", "edit") & columns.vectors["source"].known)
    kinds = _kinds(columns, originals_at)
    if not kinds:
        return None
    kind = max(sorted(kinds), key=kinds.__getitem__)
    originals = _scaled(ORIGINAL, "source", columns, originals_at, kind, estimator)

    def measured(rows: Mapping[str, Flags]) -> dict[str, RealismRow]:
        seen = {
            row: _scaled(row, "image", columns, np.flatnonzero(shown & flags), kind, estimator)
            for row, flags in rows.items()
        }
        known = {row: images for row, images in seen.items() if len(images.sources)}
        return {row: _realism_row(row, originals, images, estimator) for row, images in known.items()}

    edits = columns.of("kind", "edit")
    of_types = measured({name: edits & columns.of("edit_type", name) for name in EDIT_TYPES})
    sets = {row: edits if row == "counterfactual" else columns.of("kind", row) for row in REALISM_ROWS}
    return RealismSummary(
        network=kind[0],
        width=kind[1],
        n_originals=len(originals.sources),
        floor=_floor(originals, estimator),
        rows=measured(sets),
        edit_types={name: row for name, row in of_types.items() if row.kernel is not None},
    )


def _kinds(columns: ItemColumns, at: Ints) -> Counter[tuple[str, int]]:
    """Only features of one kind can be compared: from the same weights, with the same width."""
    pairs = zip(columns.clip[at].tolist(), columns.vectors["source"].width[at].tolist(), strict=True)
    return Counter({(columns.name("clip", code), width): n for (code, width), n in Counter(pairs).items()})


def _scaled(
    row: str, vector: str, columns: ItemColumns, at: Ints, kind: tuple[str, int], estimator: LanceEstimator
) -> _Set:
    """The features of a kind that these items have, of at most `MOST_IMAGES` of them."""
    vectors = columns.vectors[vector]
    of_kind = vectors.known[at] & columns.of("clip", kind[0])[at] & (vectors.width[at] == kind[1])
    at = at[of_kind]
    if len(at) > MOST_IMAGES:
        at = np.sort(estimator.generator(f"realism/{row}/images").choice(at, MOST_IMAGES, replace=False))
    # For unit vectors x·y/d is so small that the kernel would compare only means.
    scale = math.sqrt(kind[1]) if len(at) else 1.0
    return _Set(columns.features.read(kind[1], vectors.row[at]) * scale, columns.unit[at])


def _realism_row(name: str, originals: _Set, generated: _Set, estimator: LanceEstimator) -> RealismRow:
    kernel = kernel_distance(
        originals.features,
        generated.features,
        estimator.generator(f"realism/{name}"),
        sources=(originals.sources.tolist(), generated.sources.tolist()),
    )
    return _distances_row(kernel, frechet_distance(originals.features, generated.features), generated.sources)


def _floor(originals: _Set, estimator: LanceEstimator) -> RealismRow:
    """The distances of two random halves of the originals, one image per source."""
    generator = estimator.generator("realism/floor")
    first, second = halves(originals.features, generator)
    kernel = kernel_distance(first, second, generator)
    return _distances_row(kernel, frechet_distance(first, second), originals.sources)


def _distances_row(
    kernel: Estimate | Refused, frechet: FrechetDistance | Refused, sources: Ints
) -> RealismRow:
    return RealismRow(
        kernel=None if isinstance(kernel, Refused) else kernel,
        no_kernel=kernel.reason if isinstance(kernel, Refused) else "",
        frechet=None if isinstance(frechet, Refused) else frechet.distance,
        no_frechet=frechet.reason if isinstance(frechet, Refused) else "",
        n_images=len(sources),
        n_sources=len(np.unique(sources)),
    )


def summarize_perplexity(columns: ItemColumns, estimator: LanceEstimator) -> PerplexitySummary | None:
    """Measure each set of captions of the screen; None if the run recorded no likelihoods."""
    seen = columns.screened & columns.done & (columns.tokens > 0)
    models, numbers = np.unique(columns.language_model[seen], return_counts=True)
    names = [columns.name("language_model", code) for code in models.tolist()]
    if not names:
        return None
    # Figures of two models cannot be compared: the one with the most captions is reported.
    counts = dict(zip(names, numbers.tolist(), strict=True))
    language_model = max(sorted(counts), key=counts.__getitem__)
    of_model = seen & columns.of("language_model", language_model)
    rows = {row: np.flatnonzero(of_model & columns.of("kind", kind)) for row, kind in CAPTIONED_ITEMS.items()}
    return PerplexitySummary(
        language_model=language_model,
        rows={
            row: _perplexity_row(row, columns, at, language_model, estimator)
            for row, at in rows.items()
            if len(at)
        },
    )


def _perplexity_row(
    name: str, columns: ItemColumns, at: Ints, model: str, estimator: LanceEstimator
) -> PerplexityRow:
    # One entry per source: its captions share most of their words.
    _, places = in_order(columns.unit[at])
    nats = np.bincount(places, weights=columns.nats[at])
    tokens = np.bincount(places, weights=columns.tokens[at]).astype(np.int64)
    entries = list(zip(nats.tolist(), tokens.tolist(), strict=True))
    measured = perplexity(entries, estimator.generator(f"perplexity/{name}"), language_model=model)
    return PerplexityRow(
        perplexity=None if isinstance(measured, Refused) else measured.perplexity,
        no_perplexity=measured.reason if isinstance(measured, Refused) else "",
        tokens=int(tokens.sum()),
        n_captions=len(at),
    )
