"""T1: text-to-image in batches: equal to single images, and faster than those and diffusers' pipeline."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpose_core.editing.generate import starting_noise
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.contestants import diffusers_pipelines
from evaluation.benchmarks.interleaved import interleaved, ratios
from evaluation.benchmarks.report import Row, at_least, at_most, row
from evaluation.reference.plain_driver import generate

GUIDANCE = 2.0


def rows(bench: Bench) -> list[Row]:
    """Compare latents, then time four ways of making the same number of images."""
    sizes = bench.sizes
    prompts = [bench.work.captions[number % len(bench.work.captions)] for number in range(sizes.prompts)]
    return [_equality(bench, prompts), *_speed(bench, prompts)]


def _equality(bench: Bench, prompts: list[str]) -> Row:
    pipeline, steps = bench.pipeline, bench.sizes.prompt_steps
    noise = starting_noise(range(len(prompts)), pipeline.latent_shape)
    text, table = pipeline.prompts.encode(prompts), pipeline.schedule.timetable(steps)

    def made(rows_: slice) -> Tensor:
        return generate(pipeline.denoiser, table, noise[rows_], text[rows_], pipeline.null, guidance=GUIDANCE)

    together = made(slice(None))
    alone = torch.cat([made(slice(number, number + 1)) for number in range(len(prompts))])
    errors = (together - alone).abs().flatten(1).amax(dim=1).tolist()
    measure = f"largest difference of latents, batch of {len(prompts)} beside one by one, float32"
    return row("T1", measure, errors, at_most(1e-5))


def _speed(bench: Bench, prompts: list[str]) -> list[Row]:
    steps, product = bench.sizes.prompt_steps, bench.product
    loaded = diffusers_pipelines.pipeline(bench.suite.model)

    def diffusers(batch: int) -> None:
        diffusers_pipelines.text_to_image(loaded, prompts, steps=steps, guidance=GUIDANCE, batch=batch)

    def one_by_one() -> None:
        for prompt in prompts:
            product.generate([prompt], steps=steps, guidance=GUIDANCE)

    laps = interleaved(
        {
            "batched": lambda: product.generate(prompts, steps=steps, guidance=GUIDANCE),
            "one by one": one_by_one,
            "diffusers' pipeline one by one": lambda: diffusers(1),
            "diffusers' pipeline batched": lambda: diffusers(len(prompts)),
        },
        bench.sizes.repetitions,
    )
    least = {
        "one by one": at_least(2.5),
        "diffusers' pipeline one by one": at_least(2.5),
        "diffusers' pipeline batched": at_least(1.0),
    }
    shape = f"{len(prompts)} prompts, {steps} steps"
    return [
        row(
            "T1",
            f"times the speed of {slow} by {clock} time, batched ({shape})",
            ratios(laps[slow][clock], laps["batched"][clock]),
            least[slow],
            advisory=True,
        )
        for slow in ("one by one", "diffusers' pipeline one by one", "diffusers' pipeline batched")
        for clock in ("wall", "processor")
    ]
