"""What models answered on the pictures of a benchmark: base and shifts, class by class, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faultline_core.errors import BadBackendOutput, InvalidRequest
from faultline_core.shift_filter import Flags
from faultline_core.shifts import BASE

Index = NDArray[np.intp]
Entry = TypeVar("Entry", str, int)


@dataclass(frozen=True)
class ModelAnswers:
    """Values (conditions, classes, pictures, models): whether the answer is right, or p(true class).

    The first condition is `BASE`, the others are shifts. A place along pictures is a seed: base and shifts
    were generated from the same, so that a class's pictures in one place are a pair. ``made`` and ``kept``
    (conditions, classes, pictures) say which there are and which passed the filter; where nothing is kept,
    a value means nothing. Of 24 conditions, 1,000 classes, 50 pictures and 60 models, bools are 72 MB.
    """

    models: tuple[str, ...]
    conditions: tuple[str, ...]
    classes: tuple[str, ...]
    values: NDArray[np.bool_] | NDArray[np.floating]
    made: Flags
    kept: Flags

    def __post_init__(self) -> None:
        _check_names(self.models, "model")
        _check_names(self.conditions, "condition")
        _check_names(self.classes, "class")
        if self.conditions[:1] != (BASE,):
            raise InvalidRequest(f"the first condition of a benchmark is {BASE!r}")
        expected = (len(self.conditions), len(self.classes), self.made.shape[-1], len(self.models))
        shapes = (
            self.values.shape,
            (*self.made.shape, len(self.models)),
            (*self.kept.shape, len(self.models)),
        )
        if any(shape != expected for shape in shapes):
            raise InvalidRequest(f"answers of the shape {self.values.shape} are not {expected}")
        if np.any(self.kept & ~self.made):
            raise InvalidRequest("a picture is kept that was never made")
        # A value outside shows a broken classifier, or scores passed for probabilities.
        told = self.values[self.kept]
        if told.dtype != np.bool_ and not np.all((told >= 0.0) & (told <= 1.0)):
            raise BadBackendOutput("a model's value is neither 0 nor 1 nor a probability")

    @property
    def shifts(self) -> tuple[str, ...]:
        """The conditions but the base."""
        return self.conditions[1:]

    def classes_where(self, flags: Flags) -> tuple[str, ...]:
        """The names of the classes that are flagged (classes,)."""
        return tuple(name for name, flag in zip(self.classes, flags, strict=True) if flag)


@dataclass(frozen=True)
class AnswerRows:
    """The same as a tidy table: column by column, a row for each model on each picture."""

    model: Sequence[str]
    condition: Sequence[str]
    class_name: Sequence[str]
    seed: Sequence[int]
    value: ArrayLike
    kept: ArrayLike


def answers_from_rows(rows: AnswerRows) -> ModelAnswers:
    """Lay a tidy table out by condition, class, seed and model, in the order in which each first appears.

    Raises:
        InvalidRequest: columns differ in length, a row stands twice, a model lacks a picture that
            another has, or a picture is both kept and not.
    """
    sizes = {len(rows.model), len(rows.condition), len(rows.class_name), len(rows.seed), np.size(rows.value)}
    if len(sizes | {np.size(rows.kept)}) > 1:
        raise InvalidRequest("the columns of a table of answers differ in length")
    models, model = _codes(rows.model)
    conditions, condition = _codes([BASE, *rows.condition])
    classes, class_ = _codes(rows.class_name)
    seeds, seed = _codes(rows.seed)
    at = (condition[1:], class_, seed, model)
    shape = (len(conditions), len(classes), len(seeds), len(models))
    times = np.zeros(shape, dtype=np.int64)
    np.add.at(times, at, 1)
    values, kept = np.zeros(shape, dtype=np.asarray(rows.value).dtype), np.zeros(shape, dtype=np.bool_)
    values[at], kept[at] = np.asarray(rows.value), np.asarray(rows.kept, dtype=np.bool_)
    if times.size and times.max() > 1:
        raise InvalidRequest("a model's answer to one picture stands twice in the table")
    if np.any(times.any(axis=3) != times.all(axis=3)):
        raise InvalidRequest("a picture was not answered by every model")
    if np.any(kept.any(axis=3) != kept.all(axis=3)):
        raise InvalidRequest("a picture is kept for one model and not for another")
    return ModelAnswers(
        models=tuple(models),
        conditions=tuple(conditions),
        classes=tuple(classes),
        values=values,
        made=np.asarray(times.any(axis=3)),
        kept=np.asarray(kept.any(axis=3)),
    )


def _codes(column: Sequence[Entry]) -> tuple[list[Entry], Index]:
    """The distinct entries in the order of their first appearance, and each row's place among them."""
    places = {entry: place for place, entry in enumerate(dict.fromkeys(column))}
    return list(places), np.array([places[entry] for entry in column], dtype=np.intp)


def _check_names(names: Sequence[str], noun: str) -> None:
    if not names:
        raise InvalidRequest(f"a benchmark needs a {noun}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"the {noun} {twice!r} stands twice")
