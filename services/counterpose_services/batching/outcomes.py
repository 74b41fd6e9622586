"""One outcome per item: a bad item fails alone; the others share batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.errors import CounterposeError, ResourceExhausted

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")
Raw = TypeVar("Raw")
Value = TypeVar("Value")


def settle(
    items: Sequence[Item],
    *,
    prepare: Callable[[Item], Prepared],
    run: Callable[[list[Prepared]], Sequence[Raw | CounterposeError]],
    finish: Callable[[Prepared, Raw], Value],
    batch: int,
) -> list[Outcome[Value]]:
    """Prepare each item, run the prepared ones in batches, and finish each, in order.

    Args:
        items: the items of the call.
        prepare: reads one item.
        run: runs the model on a batch of prepared items; one result each, or the error of this one.
        finish: turns a prepared item and its result into the item's value.
        batch: items per batch.

    A CounterposeError from ``prepare`` or ``finish`` becomes the problem of its item.
    """
    outcomes: dict[int, Outcome[Value]] = {}
    ready: list[tuple[int, Prepared]] = []
    for index, item in enumerate(items):
        try:
            ready.append((index, prepare(item)))
        except CounterposeError as error:
            outcomes[index] = failure(error)
    for start in range(0, len(ready), batch):
        chunk = ready[start : start + batch]
        results = _run_within_memory([prepared for _, prepared in chunk], run)
        for (index, prepared), raw in zip(chunk, results, strict=True):
            outcomes[index] = _finished(prepared, raw, finish)
    return [outcomes[index] for index in range(len(items))]


def failure(error: CounterposeError) -> Outcome[Value]:
    """Return the outcome of an item that failed with ``error``."""
    return Outcome[Value](problem=Problem.of(error))


def _finished(
    prepared: Prepared, raw: Raw | CounterposeError, finish: Callable[[Prepared, Raw], Value]
) -> Outcome[Value]:
    if isinstance(raw, CounterposeError):
        return failure(raw)
    try:
        return Outcome[Value](value=finish(prepared, raw))
    except CounterposeError as error:
        return failure(error)


def _run_within_memory(
    prepared: list[Prepared], run: Callable[[list[Prepared]], Sequence[Raw | CounterposeError]]
) -> list[Raw | CounterposeError]:
    """Run a batch; while memory is insufficient, halve it, down to a single item that is too large."""
    try:
        return list(run(prepared))
    # Only for GPU memory: on a CPU the kernel overcommits and kills the process without an exception.
    except torch.OutOfMemoryError:
        if len(prepared) == 1:
            return [
                ResourceExhausted(
                    "this item alone does not fit into memory; send a smaller one or use a larger device"
                )
            ]
    middle = len(prepared) // 2
    return _run_within_memory(prepared[:middle], run) + _run_within_memory(prepared[middle:], run)
