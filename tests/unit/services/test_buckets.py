"""Batches that do not fit into memory: halved, remembered, tried larger again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

from faultline_services.editor.buckets import FIRST_PATIENCE, Bucket, Buckets
from faultline_services.memory import fits, is_out_of_memory

ON_A_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
    " to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
)
NO_ROOM = [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), ON_A_CPU]


class Machine:
    """Notes what it did, and runs out of memory above ``room`` samples."""

    def __init__(self, room: int, error: BaseException = NO_ROOM[0]) -> None:
        self.room, self.error = room, error
        self.tried: list[int] = []
        self.done: list[int] = []

    def __call__(self, items: Sequence[int], size: int | None = None) -> None:
        self.tried.append(len(items) if size is None else size)
        if self.tried[-1] > self.room:
            raise self.error
        self.done += items


@pytest.mark.parametrize("error", NO_ROOM, ids=lambda error: type(error).__name__)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(error: BaseException) -> None:
    bucket, machine = Bucket(8), Machine(3, error)
    assert bucket.run(range(10), machine) == []
    assert machine.done == list(range(10))
    assert machine.tried == [8, 4, 2, 2, 2, 2, 2]


def test_torchs_own_refusal_is_known() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**50)
    assert is_out_of_memory(refused.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), ValueError("out of memory")])
def test_any_other_error_is_raised_at_once(error: Exception) -> None:
    machine = Machine(3, error)
    with pytest.raises(type(error)):
        Bucket(8).run(range(10), machine)
    assert machine.tried == [8]


def test_the_size_that_fits_is_remembered() -> None:
    bucket = Bucket(8)
    bucket.run(range(4), Machine(2))
    again = Machine(2)
    bucket.run(range(4), again)
    assert again.tried == [2, 2]


def test_more_are_tried_again_once_many_full_batches_fitted() -> None:
    bucket = Bucket(4)
    bucket.run(range(4), Machine(2))
    later = Machine(4)
    bucket.run(range(2 * FIRST_PATIENCE), later)
    # Two batches have fitted before, in the first call.
    assert later.tried == [2] * (FIRST_PATIENCE - 2) + [4]
    assert later.done == list(range(2 * FIRST_PATIENCE))


def test_a_larger_size_that_fails_again_is_tried_more_rarely() -> None:
    bucket, machine = Bucket(2), Machine(1)
    bucket.run(range(100), machine)
    trials = [index for index, size in enumerate(machine.tried) if size == 2]
    assert [later - trial - 1 for trial, later in pairwise(trials)] == [8, 16, 32]


def test_batches_that_are_not_full_say_nothing() -> None:
    bucket = Bucket(4)
    bucket.run(range(4), Machine(2))
    for _ in range(3 * FIRST_PATIENCE):
        bucket.run([0], Machine(2))
    assert bucket.size == 2


def test_what_does_not_fit_alone_is_handed_back_and_the_rest_done() -> None:
    def pick(items: Sequence[int]) -> None:
        if 3 in items:
            raise NO_ROOM[0]
        done.extend(items)

    done: list[int] = []
    assert Bucket(4).run(range(6), pick) == [3]
    assert done == [0, 1, 2, 4, 5]


def test_work_on_all_items_is_given_smaller_sizes_for_its_calls() -> None:
    bucket, machine = Bucket(8), Machine(3)
    assert bucket.run_whole([1, 2], 10, machine) == []
    assert machine.tried == [8, 4, 2]
    assert machine.done == [1, 2]
    assert bucket.size == 2


def test_items_of_which_not_one_sample_fits_are_handed_back() -> None:
    assert Bucket(8).run_whole([1, 2], 10, Machine(0)) == [1, 2]
    assert Bucket(8).run_whole([1], 10, Machine(0)) == [1]
    assert Bucket(8).run([1, 2], Machine(0)) == [1, 2]


def test_an_item_that_fits_alone_is_done_though_all_at_once_are_too_much() -> None:
    def pair(items: Sequence[int], size: int) -> None:
        if len(items) > 1 or 2 in items:
            raise NO_ROOM[0]
        done.extend(items)

    done: list[int] = []
    assert Bucket(2).run_whole([1, 2, 3], 6, pair) == [2]
    assert done == [1, 3]


def test_nothing_of_a_failed_try_stays_in_memory() -> None:
    kept: list[object] = []

    class Activations:
        def __del__(self) -> None:
            kept.append("freed")

    def work() -> None:
        activations = Activations()
        raise torch.OutOfMemoryError(f"no room beside {id(activations)}")

    assert not fits(work)
    assert kept == ["freed"]


def test_kinds_of_work_have_sizes_of_their_own() -> None:
    buckets = Buckets(8)
    buckets.of("null-text").run(range(8), Machine(2))
    assert (buckets.of("null-text").size, buckets.of("edit").size) == (2, 8)
