"""E8: the step engine with a network that does nothing, and on a trace of mixed requests in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Evaluation, Walk
from counterpose_core.editing.generate import GuidedPrompts, generate_walk, starting_noise
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_services.editor.step_engine.capacity import RowLimits
from counterpose_services.editor.step_engine.step_loop import StepLoop
from counterpose_services.editor.step_engine.walk_under_way import Terms, WalkUnderWay
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.report import Row, at_least, at_most, row
from evaluation.reference.plain_driver import PlainDenoiser

SLOTS = 64
LATENTS, TEXT = (4, 8, 8), (8, 32)
"""Shapes that cost next to nothing to copy: what is measured is the engine."""
TURNS, WARM_TURNS = 200, 10
REQUESTS = 400
LOAD = 1.5
"""Work that arrives beside what full calls could do: a queue that never runs dry, as in a long run."""


def rows(bench: Bench) -> list[Row]:
    """Measure the engine's own time, then occupancy and goodput."""
    repetitions = bench.sizes.repetitions
    alone = [1e3 * own_seconds(SLOTS, 1, steady) for _ in range(repetitions)]
    joined = [1e3 * own_seconds(8, SLOTS // 8, steady) for _ in range(repetitions)]
    whole = [1e3 * own_seconds(8, SLOTS // 8, sampled) for _ in range(repetitions)]
    seeds = range(max(3, repetitions))
    engine = [step_level(seed) for seed in seeds]
    alike = [request_level(seed, mixed=False) for seed in seeds]
    mixed = [request_level(seed, mixed=True) for seed in seeds]
    return [
        row("E8", f"ms of the engine a step, {SLOTS} requests of one row", alone, at_most(0.3)),
        row("E8", f"ms of the engine a step, 8 requests of {SLOTS // 8} rows", joined, at_most(0.3)),
        row("E8", f"ms a step with the requests' own DDIM steps, 8 of {SLOTS // 8} rows", whole),
        row("E8", f"share of the rows of {SLOTS}-row calls in use, mixed trace",
            [one.occupancy for one in engine], at_least(0.95)),
        row("E8", "share in use with batches of requests alike, same trace",
            [one.occupancy for one in alike]),
        row("E8", "times the goodput of batches of requests alike, same trace", _gain(engine, alike),
            at_least(2.0)),
        row("E8", "times the goodput of batches of any requests, each to the end of its longest, same trace",
            _gain(engine, mixed), at_least(2.0)),
    ]  # fmt: skip


def _gain(engine: Sequence[Outcome], other: Sequence[Outcome]) -> list[float]:
    return [one.goodput / its.goodput for one, its in zip(engine, other, strict=True)]


def own_seconds(walks: int, each: int, work: Callable[[int, int], Walk[Tensor]]) -> float:
    """Return the seconds of one turn of the engine outside of the network, mean of some hundred turns."""
    calls = [0]

    def nothing(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        calls[0] += 1
        return latents

    loop = StepLoop(PlainDenoiser(nothing), RowLimits(plain=SLOTS, optimised=SLOTS))
    loop.begin(
        WalkUnderWay(work(each, number), Account(), Terms(share=str(number % 4))) for number in range(walks)
    )
    for _ in range(WARM_TURNS):
        loop.turn()
    calls[0] = 0
    began = perf_counter()
    for _ in range(TURNS):
        loop.turn()
    return (perf_counter() - began) / calls[0]


def steady(rows_: int, number: int) -> Walk[Tensor]:
    """Ask for the same rows again and again: what the engine does, and nothing else."""
    latents, text = torch.zeros(rows_, *LATENTS), torch.zeros(rows_, *TEXT)
    while True:
        yield [Evaluation(timestep=number, latents=latents, text=text, owners=range(rows_))]


def sampled(rows_: int, number: int) -> Walk[Tensor]:
    """Sample with DDIM under guidance: two rows an image and step."""
    table = NoiseSchedule().timetable(4 * TURNS)
    text = torch.zeros(rows_ // 2, *TEXT)
    prompts = GuidedPrompts(text=text, null=text[0], guidance=2.0, owners=range(rows_ // 2))
    noise = starting_noise(range(rows_ // 2), LATENTS)
    return generate_walk(table, noise, prompts)


@dataclass(frozen=True)
class Request:
    """Rows that are evaluated so many times, from a moment on."""

    arrives: float
    rows: int
    steps: int


@dataclass(frozen=True)
class Outcome:
    """Work steps a call, a call being the unit of time, and the share of the calls' rows in use."""

    goodput: float
    occupancy: float


def trace(seed: int) -> list[Request]:
    """Draw text-to-image, edits and inversions as they come in a run: few rows or many, few steps or many."""
    draw = random.Random(seed)
    kinds = ((2, 20), (2, 50), (12, 50), (8, 5), (1, 50), (16, 30), (32, 10))
    chosen = [draw.choice(kinds) for _ in range(REQUESTS)]
    mean = sum(rows_ * steps for rows_, steps in kinds) / len(kinds)
    now, found = 0.0, []
    for rows_, steps in chosen:
        now += draw.expovariate(LOAD * SLOTS / mean)
        found.append(Request(now, rows_, steps))
    return found


def step_level(seed: int) -> Outcome:
    """Run the trace through the engine's loop; each call of the network takes one unit of time."""
    waiting = trace(seed)
    work, now, began = sum(one.rows * one.steps for one in waiting), waiting[0].arrives, waiting[0].arrives

    def nothing(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        return latents

    loop = StepLoop(PlainDenoiser(nothing), RowLimits(plain=SLOTS, optimised=SLOTS))
    while waiting or loop.busy:
        if not loop.busy:
            now = max(now, waiting[0].arrives)
        arrived = [one for one in waiting if one.arrives <= now]
        waiting = waiting[len(arrived) :]
        loop.begin(map(_walk, arrived))
        loop.turn()
        now += 1.0
    return Outcome(work / (now - began), loop.counters.occupancy)


def _walk(request: Request) -> WalkUnderWay:
    def steps() -> Walk[Tensor]:
        latents, text = torch.zeros(request.rows, *LATENTS), torch.zeros(request.rows, *TEXT)
        for _ in range(request.steps):
            yield [Evaluation(timestep=1, latents=latents, text=text, owners=range(request.rows))]
        return latents

    return WalkUnderWay(steps(), Account(), Terms(share=str(request.steps)))


def request_level(seed: int, *, mixed: bool) -> Outcome:
    """Run the trace in batches of whole requests.

    Pipelines offer batches of one number of steps. ``mixed`` batches, which none offers, have requests of any
    numbers and last as long as their longest.
    """
    waiting, now, work, offered = trace(seed), 0.0, 0, 0
    began = waiting[0].arrives
    while waiting:
        now = max(now, waiting[0].arrives)
        batch, free = list[Request](), SLOTS
        for one in [one for one in waiting if one.arrives <= now]:
            if one.rows <= free and (mixed or one.steps == waiting[0].steps):
                batch.append(one)
                free -= one.rows
        waiting = [one for one in waiting if one not in batch]
        longest = max(one.steps for one in batch)
        now += longest
        work += sum(one.rows * one.steps for one in batch)
        offered += longest * SLOTS
    return Outcome(work / (now - began), work / offered)
