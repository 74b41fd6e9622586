"""The generator's denoiser and text encoder, trained together on latents (v-prediction)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from counterpose_miniature.training.denoiser_model import (
    Widths,
    build_denoiser,
    build_schedule,
    build_text_encoder,
)
from counterpose_miniature.training.denoiser_quality import Trained, ceilings, check, publish
from counterpose_miniature.training.latents import LatentSet, load_latents, sampled
from counterpose_miniature.training.stage import StageContext, checkpoint_of, learning_rate, training_stage
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_miniature.world.grammar import words
from counterpose_miniature.world.seeds import VALIDATION

STAGE = "denoiser"
# Guidance needs an unconditional model; more dropout leaves fewer samples for the conditional one.
_CAPTION_DROPOUT = 0.12
_EMA_DECAY = 0.998
# Signal-to-noise limits of the loss weight. With Min-SNR's 5, most of the loss would be fine grain; the lower
# limit keeps weight on the noisiest steps, which determine class and layout.
_SNR_LIMITS = (0.15, 2.5)


@dataclass(frozen=True)
class _Sizes:
    steps: int
    batch: int
    check_every: int
    warm_up: int = 100
    rate: float = 1e-3
    prompts: int = 48
    sampling_steps: int = 25
    widths: Widths = field(default_factory=Widths)


# In the first run, shapes appeared after about 1,500 steps of 64 images, and object accuracy was .77 after
# 3,850; on this world it is .99 after 3,400 steps of 48.
_FULL = _Sizes(steps=3_400, batch=48, check_every=800)
_SMOKE = _Sizes(
    steps=6,
    batch=4,
    check_every=3,
    warm_up=2,
    prompts=2,
    sampling_steps=2,
    widths=Widths(levels=(8, 8, 16), text=16, text_layers=1),
)


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train denoiser and text encoder, then save the whole generator to out/editor."""
    sizes = _SMOKE if context.smoke else _FULL
    latents = load_latents(context)
    run = _Run(context, sizes, latents)
    run.fit(log)
    steps, count = 2 * sizes.sampling_steps, 4 * sizes.prompts
    average = run.average()
    figures = check(context, average, step=sizes.steps, count=count, steps=steps, split=VALIDATION)
    figures |= ceilings(context, count, VALIDATION)
    publish(context, average, context.out / "editor", figures)
    return figures


class NoiseSchedule:
    """Signal and noise rates of the 1,000 steps, and the loss weight of each."""

    def __init__(self) -> None:
        signal = build_schedule().alphas_cumprod
        snr = signal / (1.0 - signal)
        self.signal, self.noise = signal.sqrt(), (1.0 - signal).sqrt()
        self.weight = snr.clamp(*_SNR_LIMITS) / (1.0 + snr)

    def noised(
        self, clean: torch.Tensor, noise: torch.Tensor, times: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the noised latents and their velocity, both shaped as `clean` [B, 4, H, W]."""
        signal, level = self.signal[times, None, None, None], self.noise[times, None, None, None]
        return signal * clean + level * noise, signal * noise - level * clean


class _Run:
    """The state of the training loop: weights, their moving average, optimizer, step."""

    def __init__(self, context: StageContext, sizes: _Sizes, latents: LatentSet) -> None:
        torch.manual_seed(context.seed)
        self._context, self._sizes, self._latents = context, sizes, latents
        tokenizer = build_tokenizer(words())
        self._live = Trained(build_denoiser(sizes.widths), build_text_encoder(sizes.widths, tokenizer))
        self._mean = Trained(build_denoiser(sizes.widths), build_text_encoder(sizes.widths, tokenizer))
        self._mean.load_state_dict(self._live.state_dict())
        self._optimizer = torch.optim.AdamW(
            self._live.parameters(), lr=sizes.rate, betas=(0.9, 0.99), weight_decay=1e-2, fused=True
        )
        self._schedule = NoiseSchedule()
        self._step = 0

    def average(self) -> Trained:
        """Return the moving average of the weights, which is published."""
        return self._mean.eval()

    def fit(self, log: logging.Logger) -> None:
        """Train from the last checkpoint to the last step."""
        checkpoint = checkpoint_of(self._context, STAGE)
        self._restore(checkpoint.load())
        log.info("from step %d of %d", self._step, self._sizes.steps)
        losses: list[float] = []
        bar = tqdm(
            range(self._step, self._sizes.steps), initial=self._step, total=self._sizes.steps, desc=STAGE
        )
        for step in bar:
            losses.append(self._advance(step))
            if self._step % 50 == 0:
                log.info("step %d loss %.4f", self._step, sum(losses) / len(losses))
                losses.clear()
            if checkpoint.due() or self._step == self._sizes.steps:
                checkpoint.save(self._state())
            if self._step % self._sizes.check_every == 0 and self._step < self._sizes.steps:
                self._look(log.info)

    def _look(self, report: Callable[..., None]) -> None:
        sizes = self._sizes
        figures = check(
            self._context, self.average(), step=self._step, count=sizes.prompts, steps=sizes.sampling_steps
        )
        report("step %d %s", self._step, figures)
        publish(self._context, self.average(), self._context.folder(STAGE) / "pipeline", figures)

    def _advance(self, step: int) -> float:
        sizes = self._sizes
        # Held for more than half of the steps, because the class is learned last and needs the full rate.
        rate = learning_rate(step, sizes.steps, sizes.rate, warm_up=sizes.warm_up, hold=0.55)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        loss = self._loss(self._context.generator(step + 1))
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._live.parameters(), 1.0)
        self._optimizer.step()
        self._step = step + 1
        # A short memory at first, or the untrained weights would stay in the average for 500 steps.
        decay = min(_EMA_DECAY, (1 + self._step) / (10 + self._step))
        means: list[torch.Tensor] = list(self._mean.parameters())
        lives = [live.detach() for live in self._live.parameters()]
        with torch.no_grad():
            # One call for all tensors instead of hundreds.
            torch._foreach_lerp_(means, lives, 1.0 - decay)
        return float(loss.detach())

    def _loss(self, generator: torch.Generator) -> torch.Tensor:
        clean, tokens = self._batch(generator)
        count = len(clean)
        # One time from each of `count` equal intervals, so that the loss varies less between batches.
        strata = (torch.arange(count) + torch.rand(count, generator=generator)) / count
        times = (1000 * strata).long().clamp(max=999)
        noised, velocity = self._schedule.noised(clean, torch.randn(clean.shape, generator=generator), times)
        # 573 ms per step instead of 975 ms in fp32, with the first run's widths on two cores.
        with torch.autocast("cpu", torch.bfloat16):
            predicted = self._live(noised.contiguous(memory_format=torch.channels_last), times, tokens)
        error = (predicted.float() - velocity).square().mean(dim=(1, 2, 3))
        loss: torch.Tensor = (self._schedule.weight[times] * error).mean()
        return loss

    def _batch(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        latents, count = self._latents, self._sizes.batch
        rows = torch.randint(len(latents.moments), (count,), generator=generator)
        variants = torch.randint(latents.tokens.shape[1], (count,), generator=generator)
        clean = sampled(latents.moments[rows], generator)
        dropped = torch.rand(count, generator=generator) < _CAPTION_DROPOUT
        return clean, torch.where(dropped[:, None], latents.empty, latents.tokens[rows, variants])

    def _state(self) -> dict[str, Any]:
        return {
            "live": self._live.state_dict(),
            "mean": self._mean.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self._step,
        }

    def _restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self._live.load_state_dict(state["live"])
        self._mean.load_state_dict(state["mean"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._step = int(state["step"])
