"""Values by code, such as by the number of a source: what `by_source` does for names, on columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def in_order(codes: Ints) -> tuple[Ints, Ints]:
    """Return the distinct codes in the order in which they first occur, and each code's place among them."""
    distinct, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return distinct[order], places[inverse]


def means_by(codes: Ints, values: Floats) -> Floats:
    """Return the mean of the values of each code, in the order in which codes first occur."""
    _, places = in_order(codes)
    return np.asarray(np.bincount(places, weights=values) / np.bincount(places))


def counts_by(codes: Ints, true: Flags) -> tuple[Ints, Floats]:
    """Return the distinct codes in order, and for each the number of true values and of values (n, 2)."""
    distinct, places = in_order(codes)
    counts = [np.bincount(places, weights=true), np.bincount(places).astype(np.float64)]
    return distinct, np.stack(counts, axis=1)
