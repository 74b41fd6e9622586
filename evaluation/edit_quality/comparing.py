"""Figures of each mode, and its differences from a reference on the same edits, with sources resampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.types import Estimate
from evaluation.validity.measures import resampled

from .measuring import Row

Indices = NDArray[np.intp]
Figure = Callable[[Sequence[Row]], float | None]
"""A figure of some rows; None where they do not determine it."""

SEED = 0


def _of_kept(name: str) -> Figure:
    def figure(rows: Sequence[Row]) -> float | None:
        kept = [bool(getattr(row, name)) for row in rows if row.kept]
        return sum(kept) / len(kept) if kept else None

    return figure


def _mean(name: str) -> Figure:
    def figure(rows: Sequence[Row]) -> float | None:
        return float(np.mean([getattr(row, name) for row in rows])) if rows else None

    return figure


SHARES: Mapping[str, Figure] = {
    **{name: _of_kept(name) for name in ("success", "fidelity", "label")},
    **{f"{name}_unfiltered": _mean(name) for name in ("success", "fidelity", "label")},
    "kept": _mean("kept"),
}
MEANS: Mapping[str, Figure] = {
    name: _mean(name) for name in ("reconstruction_db", "evaluations", "calls", "gflop", "cpu_seconds")
}


class ModeFigures(BaseModel):
    """One mode: shares of its edits with intervals, and means an edit without."""

    preset: PromptToPromptPreset
    edits: int
    shares: dict[str, Estimate]
    means: dict[str, float]


class Difference(BaseModel):
    """Mode minus reference on the edits both made; ``cheaper`` is the reference's cost over the mode's."""

    edits: int
    sources: int
    shares: dict[str, Estimate]
    cheaper: dict[str, float]


class Comparison(BaseModel):
    """All modes, and each against each reference, by name."""

    first_scene: int
    selection: str
    modes: dict[str, ModeFigures]
    differences: dict[str, dict[str, Difference]]


def figures(rows: Sequence[Row], preset: PromptToPromptPreset) -> ModeFigures:
    """Figures of one mode."""
    names = [str(row.trial) for row in rows]
    generator = np.random.default_rng(SEED)

    def estimate(figure: Figure) -> Estimate:
        return resampled(lambda chosen: figure([rows[i] for i in chosen]), names, generator)

    return ModeFigures(
        preset=preset,
        edits=len(rows),
        shares={name: estimate(figure) for name, figure in SHARES.items()},
        means={name: figure(rows) or 0.0 for name, figure in MEANS.items()},
    )


def difference(mode: Sequence[Row], reference: Sequence[Row]) -> Difference:
    """Compare a mode with a reference, edit by edit."""
    theirs = {row.key: row for row in reference}
    pairs = [(row, theirs[row.key]) for row in mode if row.key in theirs]
    names = [str(row.trial) for row, _ in pairs]
    generator = np.random.default_rng(SEED)

    def estimate(figure: Figure) -> Estimate:
        def gap(chosen: Indices) -> float | None:
            ours, others = (figure([pairs[i][side] for i in chosen]) for side in (0, 1))
            return None if ours is None or others is None else ours - others

        return resampled(gap, names, generator)

    def ratio(figure: Figure) -> float:
        ours, others = (figure([pair[side] for pair in pairs]) for side in (0, 1))
        return (others or 0.0) / ours if ours else float("inf")

    return Difference(
        edits=len(pairs),
        sources=len(set(names)),
        shares={name: estimate(figure) for name, figure in SHARES.items()},
        cheaper={name: ratio(MEANS[name]) for name in ("evaluations", "calls", "gflop", "cpu_seconds")},
    )
