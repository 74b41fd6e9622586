"""Batches that do not fit into memory: halved, remembered, and later tried larger again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

from counterpose_services.batching.batch_size import (
    FIRST_PATIENCE,
    BatchSizer,
    BatchSizers,
    DoesNotFit,
    is_out_of_memory,
    together_or_alone,
    within_memory,
)

ON_A_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
    " to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
)
NO_ROOM = [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), ON_A_CPU]


class Machine:
    """Records its calls, and runs out of memory above ``room`` samples."""

    def __init__(self, room: int, error: BaseException = NO_ROOM[0]) -> None:
        self.room, self.error = room, error
        self.tried: list[int] = []
        self.done: list[int] = []

    def __call__(self, items: Sequence[int]) -> None:
        self.tried.append(len(items))
        if self.tried[-1] > self.room:
            raise self.error
        self.done += items


@pytest.mark.parametrize("error", NO_ROOM, ids=lambda error: type(error).__name__)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(error: BaseException) -> None:
    sizer, machine = BatchSizer(8), Machine(3, error)
    assert sizer.run(range(10), machine).too_large == []
    assert machine.done == list(range(10))
    assert machine.tried == [8, 4, 2, 2, 2, 2, 2]


def test_torch_out_of_memory_errors_are_recognised() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**50)
    assert is_out_of_memory(refused.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), ValueError("out of memory")])
def test_other_errors_are_raised_at_once(error: Exception) -> None:
    machine = Machine(3, error)
    with pytest.raises(type(error)):
        BatchSizer(8).run(range(10), machine)
    assert machine.tried == [8]


def test_the_size_that_fits_is_remembered() -> None:
    sizer = BatchSizer(8)
    sizer.run(range(4), Machine(2))
    again = Machine(2)
    sizer.run(range(4), again)
    assert again.tried == [2, 2]


def test_a_larger_size_is_tried_after_many_full_batches() -> None:
    sizer = BatchSizer(4)
    sizer.run(range(4), Machine(2))
    later = Machine(4)
    sizer.run(range(2 * FIRST_PATIENCE), later)
    # Two batches have fitted before, in the first call.
    assert later.tried == [2] * (FIRST_PATIENCE - 2) + [4]
    assert later.done == list(range(2 * FIRST_PATIENCE))


def test_a_larger_size_that_fails_again_is_tried_less_often() -> None:
    sizer, machine = BatchSizer(2), Machine(1)
    sizer.run(range(100), machine)
    trials = [index for index, size in enumerate(machine.tried) if size == 2]
    assert [later - trial - 1 for trial, later in pairwise(trials)] == [8, 16, 32]


def test_partial_batches_do_not_count_towards_growth() -> None:
    sizer = BatchSizer(4)
    sizer.run(range(4), Machine(2))
    for _ in range(3 * FIRST_PATIENCE):
        sizer.run([0], Machine(2))
    assert sizer.size == 2


def test_items_too_large_on_their_own_are_returned_and_the_rest_done() -> None:
    def pick(items: Sequence[int]) -> None:
        if 3 in items:
            raise NO_ROOM[0]
        done.extend(items)

    done: list[int] = []
    assert BatchSizer(4).run(range(6), pick).too_large == [3]
    assert done == [0, 1, 2, 4, 5]


def test_items_without_a_fitting_sample_are_returned() -> None:
    assert together_or_alone([1, 2], Machine(0)).too_large == [1, 2]
    assert together_or_alone([1], Machine(0)).too_large == [1]
    assert BatchSizer(8).run([1, 2], Machine(0)).too_large == [1, 2]


def test_items_too_large_together_are_processed_one_by_one() -> None:
    def pair(items: Sequence[int]) -> None:
        if len(items) > 1 or 2 in items:
            raise NO_ROOM[0]
        done.extend(items)

    done: list[int] = []
    assert together_or_alone([1, 2, 3], pair).too_large == [2]
    assert done == [1, 3]


def test_batch_results_are_in_order_without_failed_attempts() -> None:
    def total(items: Sequence[int]) -> int:
        if len(items) > 2 or 4 in items:
            raise NO_ROOM[0]
        return sum(items)

    done = BatchSizer(4).run(range(6), total)
    assert (done.results, done.too_large) == ([0 + 1, 2 + 3, 5], [4])


def test_joint_work_returns_one_result_or_one_per_item() -> None:
    def total(items: Sequence[int]) -> int:
        tried.append(list(items))
        if len(items) > room:
            raise NO_ROOM[0]
        return sum(items)

    room, tried = 3, list[list[int]]()
    assert together_or_alone([1, 2, 3], total).results == [6]
    room, tried = 2, []
    assert together_or_alone([1, 2, 3], total).results == [1, 2, 3]
    # Nothing is tried twice in the same company.
    assert tried == [[1, 2, 3], [1], [2], [3]]
    assert together_or_alone([], total).results == []


def test_failed_attempts_release_their_memory() -> None:
    kept: list[object] = []

    class Activations:
        def __del__(self) -> None:
            kept.append("freed")

    def work() -> None:
        activations = Activations()
        raise torch.OutOfMemoryError(f"no memory next to {id(activations)}")

    with pytest.raises(DoesNotFit):
        within_memory(work)
    assert kept == ["freed"]


def test_each_kind_of_work_has_its_own_batch_size() -> None:
    sizers = BatchSizers(8)
    sizers.of("null-text").run(range(8), Machine(2))
    assert (sizers.of("null-text").size, sizers.of("edit").size) == (2, 8)
