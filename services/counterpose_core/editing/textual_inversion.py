"""Textual inversion: learn a class's vectors in the text encoder's table (Gal et al. 2022, eq. 2).

Several classes share only the network calls: each has its own vectors, optimiser state and samples, so its
result is the same as when it is trained alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from counterpose_core.editing.adam import adam_update
from counterpose_core.editing.driver.evaluation import Answer, Evaluation, Objective, Owner, Walk
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from counterpose_core.editing.training_task import Learned, Learning, Sample, TokenTask


class TemplateReader(Protocol):
    """A text encoder that reads prompt templates whose slot is filled by vectors.

    The smallest one, which sees the vectors alone:

        def mean(templates, owners, vectors):
            return vectors[list(owners)].mean(dim=1, keepdim=True)
    """

    def __call__(self, templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed, for each row, a template with the vectors of its owner among (N, k, D) into (R, L, D)."""


@dataclass(frozen=True, kw_only=True)
class TextualInversionSettings:
    """Knobs of the optimisation; the defaults are those of the reference implementation.

    ``pin_norm`` keeps the vectors, as the text encoder sees them, at the norm they started from.
    """

    learning_rate: float = 5e-4
    weight_decay: float = 1e-2
    pin_norm: bool = True


def pinned(vectors: Tensor, initial: Tensor) -> Tensor:
    """Scale vectors (..., k, D) to the norms of those they started from (the reference's split embedding)."""
    # Unusually long vectors dominate the other words of a prompt, so a shift would have no effect.
    wanted: Tensor = torch.linalg.vector_norm(initial, dim=-1, keepdim=True)
    found: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors * (wanted / found)


def noised(clean: Tensor, noise: Tensor, level: float, prediction: PredictionType) -> tuple[Tensor, Tensor]:
    """Return latents at a signal level (alpha-bar) and the network's target for them.

    Args:
        clean: clean latents, of any shape.
        noise: noise of the same shape.
        level: alpha-bar, from 0 to 1.
        prediction: the target: the noise (Ho et al. 2020, eq. 14) or the velocity (Salimans and Ho 2022).
    """
    signal, spread = math.sqrt(level), math.sqrt(1.0 - level)
    target = noise if prediction == "epsilon" else signal * noise - spread * clean
    return signal * clean + spread * noise, target


@dataclass(frozen=True)
class _Drawn:
    """The samples of one class at one step: noised latents (B, C, H, W) and targets of the same shape."""

    samples: Sequence[Sample]
    prompts: Sequence[int]
    latents: Tensor
    targets: Tensor

    @classmethod
    def of(cls, task: TokenTask, step: int, levels: Sequence[float], prediction: PredictionType) -> _Drawn:
        """Draw step ``step`` of a task."""
        samples = task.stream.samples(step)
        clean = torch.stack([task.latents(sample) for sample in samples])
        noise = task.stream.noise(step, tuple(clean.shape[1:])).to(clean)
        pairs = [
            noised(one, other, levels[sample.timestep], prediction)
            for one, other, sample in zip(clean, noise, samples, strict=True)
        ]
        latents, targets = zip(*pairs, strict=True)
        prompts = [task.prompt(sample) for sample in samples]
        return cls(samples, prompts, torch.stack(latents), torch.stack(targets))

    def asked(self, text: Tensor, owner: Owner) -> list[Evaluation]:
        """Request the loss of each sample under its row of ``text`` (B, L, D), and the gradient in it."""
        rows = zip(self.samples, self.latents.split(1), self.targets.split(1), text.split(1), strict=True)
        return [
            Evaluation(
                timestep=sample.timestep,
                latents=latents,
                text=words,
                owners=[owner],
                # Read on the host at every step: a class that breaks leaves the batch at once.
                objective=Objective(1.0, -target, read=True),
            )
            for sample, latents, target, words in rows
        ]


def _text(read: TemplateReader, drawn: Sequence[_Drawn], vectors: Tensor) -> Tensor:
    """Read the prompts of all samples (R, L, D), so that a gradient reaches the vectors (N, k, D)."""
    pairs = [(prompt, place) for place, each in enumerate(drawn) for prompt in each.prompts]
    prompts, owners = zip(*pairs, strict=True)
    return read(prompts, owners, vectors)


def _updated(
    states: Sequence[Learning], gradient: Tensor, settings: TextualInversionSettings
) -> list[Learning]:
    """Take one step of AdamW (Loshchilov and Hutter 2019) against the gradient (N, k, D)."""
    vectors, first, second = (
        torch.stack([getattr(state, name) for state in states]) for name in ("vectors", "first", "second")
    )
    counts = torch.tensor([state.step + 1 for state in states], dtype=torch.float64, device=gradient.device)
    first, second, direction = adam_update(first, second, gradient, counts[:, None, None])
    kept = 1.0 - settings.learning_rate * settings.weight_decay
    vectors = kept * vectors - settings.learning_rate * direction
    steps = [state.step + 1 for state in states]
    return [Learning(*row) for row in zip(vectors, first, second, steps, strict=True)]


def _joined(answers: Sequence[Answer], sizes: Sequence[int]) -> list[Answer]:
    """Join the answers to the samples of each class."""
    remaining = iter(answers)
    return [Answer.join([next(remaining) for _ in range(size)]) for size in sizes]


def textual_inversion_walk(
    tasks: Sequence[TokenTask],
    read: TemplateReader,
    schedule: NoiseSchedule,
    settings: TextualInversionSettings,
    owners: Sequence[Owner],
) -> Walk[list[Learned]]:
    """Train all tasks together, each to its own last step; a task whose loss is not finite stops alone.

    Args:
        tasks: the classes to train.
        read: the text encoder.
        schedule: the noise schedule of the model.
        settings: the settings of the optimiser.
        owners: the owner of each task, who pays for its evaluations.
    """
    levels, states = schedule.alphas_cumprod().tolist(), [task.state for task in tasks]
    losses: list[list[float]] = [[] for _ in tasks]
    broken: set[int] = set()
    while active := [
        index for index, task in enumerate(tasks) if states[index].step < task.until and index not in broken
    ]:
        drawn = [_Drawn.of(tasks[index], states[index].step, levels, schedule.prediction) for index in active]
        sizes = [len(each.samples) for each in drawn]
        leaf = torch.stack([states[index].vectors for index in active]).requires_grad_()
        initial = torch.stack([tasks[index].initial for index in active])
        with torch.enable_grad():
            text = _text(read, drawn, pinned(leaf, initial) if settings.pin_norm else leaf)
        rows = zip(active, drawn, text.detach().split(sizes), strict=True)
        answers = yield [asked for index, each, words in rows for asked in each.asked(words, owners[index])]
        by_class = _joined(answers, sizes)
        # The loss of a class is the mean over its samples; those of the classes are added up.
        slopes = [answer.gradient / len(answer.values) for answer in by_class if answer.gradient is not None]
        (gradient,) = torch.autograd.grad(text, leaf, torch.cat(slopes))
        stepped = _updated([states[index] for index in active], gradient, settings)
        for index, answer, state in zip(active, by_class, stepped, strict=True):
            losses[index].append(sum(answer.values) / len(answer.values))
            if math.isfinite(losses[index][-1]):
                states[index] = state
            else:
                broken.add(index)
    return [
        Learned(state, tuple(curve), index in broken or not bool(torch.isfinite(state.vectors).all()))
        for index, (state, curve) in enumerate(zip(states, losses, strict=True))
    ]
