"""The step engine: each walk gives the same result as alone, whoever else is in its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, CountingDenoiser
from counterpose_core.editing.driver.evaluation import Evaluation, Walk
from counterpose_core.errors import BackendUnavailable, Cancelled, InternalError, NumericalFailure
from counterpose_services.batching.batch_size import DoesNotFit
from counterpose_services.editor.step_engine.capacity import RowLimits
from counterpose_services.editor.step_engine.fair_shares import FairShares
from counterpose_services.editor.step_engine.mode import Mode
from counterpose_services.editor.step_engine.step_engine import StepEngine
from counterpose_services.editor.step_engine.walk_under_way import Terms
from evaluation.reference.plain_driver import PlainDenoiser
from evaluation.reference.toy_denoisers import TinyAttention
from fakes.walks import DTYPES, KINDS, alone, walk


@contextmanager
def running(denoiser: Callable[..., Tensor], limits: RowLimits) -> Iterator[StepEngine]:
    engine = StepEngine(PlainDenoiser(denoiser), limits)
    try:
        yield engine
    finally:
        engine.close()


def at_once(engine: StepEngine, kinds: Sequence[str], dtype: torch.dtype) -> list[Tensor]:
    """Run a walk of each kind, each from a thread of its own."""
    with ThreadPoolExecutor(len(kinds)) as threads:
        return list(threads.map(lambda kind: engine.runner(Terms(share=kind)).run(walk(kind, dtype)), kinds))


@settings(max_examples=6, deadline=None)
@given(
    kinds=st.permutations(KINDS).flatmap(lambda kinds: st.integers(2, 6).map(lambda n: list(kinds)[:n])),
    batch=st.sampled_from((1, 2, 3, 16)),
    dtype=st.sampled_from(tuple(DTYPES)),
)
def test_results_depend_neither_on_company_nor_on_the_order_of_arrival(
    kinds: list[str], batch: int, dtype: torch.dtype
) -> None:
    counting = CountingDenoiser(TinyAttention(dtype=dtype))
    with running(counting, RowLimits.of_batch(batch)) as engine:
        found = at_once(engine, kinds, dtype)
    for kind, result in zip(kinds, found, strict=True):
        assert torch.allclose(result, alone(kind, dtype), atol=DTYPES[dtype], rtol=0), kind


def test_walks_share_calls_and_pay_for_their_own_rows() -> None:
    counting = CountingDenoiser(TinyAttention())
    with running(counting, RowLimits.of_batch(16)) as engine, ThreadPoolExecutor(4) as threads:
        runners = [engine.runner(Terms(share=number)) for number in range(4)]
        gate = threading.Barrier(4)

        def run(number: int) -> Tensor:
            gate.wait()
            return runners[number].run(walk("null-text edit", torch.float64))

        results = list(threads.map(run, range(4)))
        totals = [runner.total for runner in runners]
    assert all(torch.equal(result, results[0]) or torch.allclose(result, results[0]) for result in results)
    assert sum(total.unet_evaluations for total in totals) == counting.cost.unet_evaluations
    assert sum(total.unet_backward_evaluations for total in totals) == counting.cost.unet_backward_evaluations
    # Four that began within a moment share most of their calls.
    assert counting.cost.unet_calls < 2.5 * max(total.unet_calls for total in totals)


class Watched:
    """A toy network that records the rows of its calls, and can be made to misbehave."""

    def __init__(self, largest: int = 1000, poison: float | None = None) -> None:
        self.model, self.rows, self.largest, self.poison = TinyAttention(), list[int](), largest, poison

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        self.rows.append(len(latents))
        if len(latents) > self.largest:
            raise torch.OutOfMemoryError
        if self.poison is not None and bool((latents == self.poison).any()):
            raise NumericalFailure("poisoned")
        return self.model(latents, timestep, text, control)


@pytest.mark.parametrize("largest", [2, 5])
def test_calls_shrink_until_they_fit_in_memory(largest: int) -> None:
    model = Watched(largest)
    with running(model, RowLimits.of_batch(16)) as engine:
        found = at_once(engine, KINDS, torch.float64)
        assert engine.counters.shrunk > 0
    for kind, result in zip(KINDS, found, strict=True):
        assert torch.allclose(result, alone(kind, torch.float64), atol=1e-10, rtol=0), kind


def test_a_walk_whose_smallest_part_does_not_fit_ends_alone() -> None:
    model = Watched(largest=0)
    with running(model, RowLimits.of_batch(4)) as engine:
        with pytest.raises(DoesNotFit):
            engine.runner().run(walk("direct", torch.float64))
        model.largest = 1000
        assert torch.allclose(
            engine.runner().run(walk("direct", torch.float64)), alone("direct", torch.float64)
        )


def steps(latents: Tensor, text: Tensor, number: int, owner: object = 0) -> Walk[Tensor]:
    """Evaluate the same latents (R, C, H, W) under text (R, L, D) again and again."""
    output = latents
    for _ in range(number):
        (answer,) = yield [Evaluation(timestep=5, latents=latents, text=text, owners=[owner] * len(latents))]
        output = answer.output
    return output


def rows(number: int, side: int = 4, value: float = 0.5) -> tuple[Tensor, Tensor]:
    return torch.full((number, 2, side, side), value, dtype=torch.float64), torch.ones(
        number, 5, 6, dtype=torch.float64
    )


def noop(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
    return latents


def test_a_walk_that_the_network_refuses_fails_and_its_neighbours_go_on() -> None:
    gate = threading.Barrier(3)

    def poisoned(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        if bool((latents == 7.0).any()):
            raise NumericalFailure("a seven")
        return latents

    def run(value: float) -> Tensor | NumericalFailure:
        gate.wait()
        try:
            return engine.runner().run(steps(*rows(2, value=value), 20))
        except NumericalFailure as error:
            return error

    with running(poisoned, RowLimits.of_batch(8)) as engine, ThreadPoolExecutor(3) as threads:
        one, bad, other = threads.map(run, (1.0, 7.0, 2.0))
    assert isinstance(bad, NumericalFailure)
    assert isinstance(one, Tensor)
    assert isinstance(other, Tensor)
    assert (float(one.mean()), float(other.mean())) == (1.0, 2.0)


def test_latents_of_several_sizes_wait_in_one_queue() -> None:
    with running(noop, RowLimits.of_batch(8)) as engine, ThreadPoolExecutor(3) as threads:
        sides = (4, 8, 2)
        found = list(threads.map(lambda side: engine.runner().run(steps(*rows(2, side), 30)), sides))
    assert [result.shape[-1] for result in found] == list(sides)


def test_a_cancelled_walk_ends_before_the_next_call_and_others_go_on() -> None:
    calls, gone = list[int](), threading.Event()

    def counted(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        calls.append(len(latents))
        if len(calls) == 5:
            gone.set()
        return latents

    with running(counted, RowLimits.of_batch(8)) as engine:
        with pytest.raises(Cancelled):
            engine.runner(Terms(cancelled=gone.is_set)).run(steps(*rows(1), 1000))
        assert len(calls) == 5
        assert engine.runner().run(steps(*rows(1), 3)).shape[0] == 1


def test_a_closed_engine_ends_its_walks_and_takes_no_more() -> None:
    began = threading.Event()

    def told(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        began.set()
        return latents

    engine = StepEngine(PlainDenoiser(told), RowLimits.of_batch(2))
    with ThreadPoolExecutor(1) as threads:
        endless = threads.submit(engine.runner().run, steps(*rows(1), 10**9))
        began.wait()
        engine.close()
        with pytest.raises(BackendUnavailable):
            endless.result(timeout=100.0)
    with pytest.raises(BackendUnavailable):
        engine.runner().run(steps(*rows(1), 1))


def test_rows_of_different_modes_are_never_in_one_call() -> None:
    class Modal:
        """A network whose output is its guidance."""

        def __init__(self) -> None:
            self.mode, self.changes = Mode(), 0

        @contextmanager
        def in_mode(self, mode: Mode) -> Iterator[None]:
            self.mode, self.changes = mode, self.changes + 1
            yield

        def __call__(self, latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
            return torch.full_like(latents, self.mode.guidance)

    model = Modal()
    engine = StepEngine(model, RowLimits.of_batch(8))
    with ThreadPoolExecutor(4) as threads:
        scales = (1.0, 3.0, 1.0, 3.0)
        found = list(
            threads.map(
                lambda scale: engine.runner(Terms(mode=Mode(guidance=scale))).run(steps(*rows(1), 200)),
                scales,
            )
        )
    engine.close()
    assert [float(result.mean()) for result in found] == list(scales)
    # A change may convert all weights, so it is not made at every call.
    assert model.changes < 80


def test_a_fault_of_the_engine_itself_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a fault")

    with running(noop, RowLimits.of_batch(2)) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(FairShares, "pick", broken)
            with pytest.raises(InternalError, match="a fault"):
                engine.runner().run(steps(*rows(1), 3))
        assert engine.runner().run(steps(*rows(1), 3)).shape[0] == 1
