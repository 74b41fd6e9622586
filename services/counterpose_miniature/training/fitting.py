"""The training loop of the small models: seeded by step, resumable, with warm-up and decay."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from tqdm import trange

from counterpose_miniature.training.stage import Checkpoint

_LOG_EVERY = 100
_CLIP_NORM = 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Length and rate: linear warm-up over the share `warm_up` of the steps, then a cosine to zero."""

    steps: int
    rate: float
    warm_up: float = 0.05
    weight_decay: float = 0.01

    def share_at(self, step: int) -> float:
        """Return the learning rate at a step as a share of `rate`."""
        # In the first steps, Adam's second moments are unreliable.
        rising = max(1, int(self.warm_up * self.steps))
        if step < rising:
            return (step + 1) / rising
        return 0.5 + 0.5 * math.cos(math.pi * (step - rising) / max(1, self.steps - rising))


def fit(
    model: nn.Module,
    loss_at: Callable[[int], torch.Tensor],
    recipe: Recipe,
    checkpoint: Checkpoint,
    logger: logging.Logger,
) -> None:
    """Minimise `loss_at(step)` over the parameters that require gradients, from the checkpoint on.

    `loss_at` draws its batch by the step's seed, so a resumed run uses the same batches as an unbroken one.
    """
    wanted = {name: value for name, value in model.named_parameters() if value.requires_grad}
    optimizer = torch.optim.AdamW(wanted.values(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    # Running means of batch normalisation are not parameters, but a resumed run needs them.
    buffers = dict(model.named_buffers())
    start = _restore(checkpoint, wanted | buffers, optimizer)
    model.train()
    for step in trange(
        start, recipe.steps, initial=start, total=recipe.steps, mininterval=5, desc=checkpoint.path.stem
    ):
        loss = _step(optimizer, wanted.values(), recipe.rate * recipe.share_at(step), loss_at, step)
        if step % _LOG_EVERY == 0 or step == recipe.steps - 1:
            logger.info("%s step %d loss %.4f", checkpoint.path.stem, step, loss)
        if checkpoint.due() or step == recipe.steps - 1:
            checkpoint.save(
                {"step": step + 1, "weights": wanted | buffers, "optimizer": optimizer.state_dict()}
            )
    model.eval()


def _restore(
    checkpoint: Checkpoint, wanted: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> int:
    state = checkpoint.load()
    if state is None:
        return 0
    with torch.no_grad():
        for name, value in wanted.items():
            value.copy_(state["weights"][name])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _step(
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[nn.Parameter],
    rate: float,
    loss_at: Callable[[int], torch.Tensor],
    step: int,
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss = loss_at(step)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, _CLIP_NORM)
    optimizer.step()
    return float(loss.detach())


def next_word_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next words: logits [n, L, V], labels [n, L], -100 ignored."""
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def prompted(pairs: Iterable[tuple[list[int], list[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Join prompts and answers: ids, padded on the right, and labels for the answers only; int64 [n, L]."""
    rows, labels = [], []
    for prompt, answer in pairs:
        rows.append(torch.tensor(prompt + answer))
        labels.append(torch.tensor([-100] * len(prompt) + answer))
    sequences = nn.utils.rnn.pad_sequence
    return (
        sequences(rows, batch_first=True, padding_value=pad),
        sequences(labels, batch_first=True, padding_value=-100),
    )
