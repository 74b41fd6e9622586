"""One outcome per item, whatever happens to its batch; no pass is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.errors import BadBackendOutput, ImageUndecodable
from counterpose_services.batching.outcomes import settle
from counterpose_services.models.cached_forward import Arrays, CachedForward


class Machine:
    """Squares numbers in batches and records the sizes; some numbers need more memory than others."""

    def __init__(self, memory: int = 10**9) -> None:
        self.memory = memory
        self.sizes: list[int] = []

    def __call__(self, numbers: list[int]) -> list[int]:
        if sum(numbers) > self.memory:
            raise torch.OutOfMemoryError("out of memory")
        self.sizes.append(len(numbers))
        return [number**2 for number in numbers]


def read(text: str) -> int:
    if not text.isdigit():
        raise ImageUndecodable(f"{text!r} is no number")
    return int(text)


def refuse_nine(_: int, square: int) -> str:
    if square == 81:
        raise BadBackendOutput("nine again")
    return str(square)


def squares(texts: Sequence[str], machine: Machine, batch: int = 8) -> list[str]:
    """The value of each outcome, or its problem's code."""
    outcomes: list[Outcome[str]] = settle(texts, prepare=read, run=machine, finish=refuse_nine, batch=batch)
    return [one.problem.code if one.problem is not None else one.unwrap() for one in outcomes]


def test_a_bad_item_does_not_affect_others_or_their_order() -> None:
    machine = Machine()
    assert squares(["2", "x", "3", "9", "4"], machine) == [
        "4",
        "image-undecodable",
        "9",
        "bad-backend-output",
        "16",
    ]
    assert machine.sizes == [4]


def test_batches_do_not_exceed_the_requested_size() -> None:
    machine = Machine()
    squares([str(number) for number in range(7)], machine, batch=3)
    assert machine.sizes == [3, 3, 1]


def test_nothing_runs_if_no_item_could_be_prepared() -> None:
    machine = Machine()
    assert squares(["x", "y"], machine) == ["image-undecodable"] * 2
    assert machine.sizes == []


def test_a_batch_that_does_not_fit_is_halved() -> None:
    machine = Machine(memory=10)
    assert squares(["4", "4", "4", "4"], machine) == ["16"] * 4
    assert machine.sizes == [2, 2]


def test_an_item_that_never_fits_fails_and_the_rest_succeed() -> None:
    machine = Machine(memory=10)
    assert squares(["2", "50", "3"], machine) == ["4", "resource-exhausted", "9"]


class Lengths:
    """A pass over texts: the length of each, NaN for the empty one."""

    def __init__(self, store: BlobStore, **inputs: object) -> None:
        self.computed: list[str] = []
        self.passes: CachedForward[str] = CachedForward(
            store, "length", read=str.strip, forward=self.forward, inputs=inputs, batch=4
        )

    def forward(self, texts: list[str]) -> list[Arrays]:
        self.computed += texts
        return [{"length": np.array([len(text) or np.nan], dtype=np.float32)} for text in texts]

    def __call__(self, *texts: str) -> list[float | str]:
        outcomes = self.passes(texts).outcomes
        return [
            one.problem.code if one.problem is not None else float(one.unwrap()["length"][0])
            for one in outcomes
        ]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def test_duplicate_items_of_a_call_are_computed_once(store: BlobStore) -> None:
    lengths = Lengths(store)
    assert lengths("ab", "c", "ab", "ab") == [2.0, 1.0, 2.0, 2.0]
    assert lengths.computed == ["ab", "c"]


def test_results_are_cached_between_processes(store: BlobStore) -> None:
    Lengths(store, model="a")("ab", "c")
    again = Lengths(store, model="a")
    assert again("c", "ddd", "ab") == [1.0, 3.0, 2.0]
    assert again.computed == ["ddd"]


def test_different_inputs_are_cached_separately(store: BlobStore) -> None:
    Lengths(store, model="a")("ab")
    other = Lengths(store, model="b")
    other("ab")
    assert other.computed == ["ab"]


def test_non_finite_results_fail_and_are_not_cached(store: BlobStore) -> None:
    lengths = Lengths(store)
    assert lengths("", "ab") == ["bad-backend-output", 2.0]
    assert lengths("") == ["bad-backend-output"]
    assert lengths.computed == ["", "ab", ""]


def test_a_corrupt_cached_answer_is_computed_again(store: BlobStore, tmp_path: Path) -> None:
    Lengths(store)("ab")
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"rot")
    again = Lengths(store)
    assert again("ab") == [2.0]
    assert again.computed == ["ab"]
    assert Lengths(store)("ab") == [2.0]
