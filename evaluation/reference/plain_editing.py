"""Inversion and prompt-to-prompt as the papers describe them: one image, one edit, one value at a time.

Nothing here is shared with the product: attention maps are explicit everywhere, the source branch is
denoised again under guidance for every edit, Adam is torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionSite, Denoiser

Carried = dict[int, list[tuple[int, float]]]
"""Target token -> source tokens and weights; a token that is not named keeps its own map."""


def signal_levels() -> list[float]:
    """alpha-bar of Stable Diffusion's thousand training steps."""
    low, high, product, levels = math.sqrt(0.00085), math.sqrt(0.012), 1.0, []
    for i in range(1000):
        product *= 1.0 - (low + (high - low) * i / 999) ** 2
        levels.append(product)
    return levels


def timesteps(steps: int) -> list[int]:
    """Noise to clean, offset 1."""
    return [i * (1000 // steps) + 1 for i in range(steps)][::-1]


def level_after(t: int, steps: int, levels: Sequence[float]) -> float:
    """alpha-bar one step further; before the first training step, that step's alpha-bar."""
    earlier = t - 1000 // steps
    return levels[earlier] if earlier >= 0 else levels[0]


def call(model: Denoiser, latents: Tensor, t: int, text: Tensor, control: object = None) -> Tensor:
    """Evaluate at one timestep."""
    times = torch.full((latents.shape[0],), t, device=latents.device)
    return model(latents, times, text, control)  # type: ignore[arg-type]  # a control of this module


def denoise(z: Tensor, output: Tensor, t: int, steps: int, *, velocity: bool = False) -> Tensor:
    """DDIM, eta 0: predicted clean latents and noise, then their less noisy mixture."""
    levels = signal_levels()
    here, there = levels[t], level_after(t, steps, levels)
    if velocity:  # Salimans and Ho 2022: v = sqrt(alpha) noise - sqrt(1 - alpha) clean
        clean = math.sqrt(here) * z - math.sqrt(1 - here) * output
        noise = math.sqrt(1 - here) * z + math.sqrt(here) * output
    else:
        noise = output
        clean = (z - math.sqrt(1 - here) * noise) / math.sqrt(here)
    return math.sqrt(there) * clean + math.sqrt(1 - there) * noise


def renoise(z: Tensor, output: Tensor, t: int, steps: int, *, velocity: bool = False) -> Tensor:
    """Return the latents that ``denoise`` takes to ``z`` when the model answers ``output``, by two unknowns.

    Both clean latents and noise are linear in (latents before, output); the noisy latents are found by
    solving for them instead of rearranging, so that nothing here repeats the product's algebra.
    """
    at_zero = denoise(torch.zeros_like(z), output, t, steps, velocity=velocity)
    slope = denoise(torch.ones_like(z), torch.zeros_like(z), t, steps, velocity=velocity)
    return (z - at_zero) / slope


def invert(
    model: Denoiser, clean: Tensor, text: Tensor, steps: int, *, velocity: bool = False
) -> list[Tensor]:
    """DDIM inversion of (1, C, H, W) at guidance 1; returns latents from clean to noise."""
    path = [clean]
    for t in reversed(timesteps(steps)):
        path.append(renoise(path[-1], call(model, path[-1], t, text), t, steps, velocity=velocity))
    return path


def negative_prompt(
    model: Denoiser, path: Sequence[Tensor], text: Tensor, guidance: float, *, velocity: bool = False
) -> list[Tensor]:
    """Walk back under guidance with the caption as its own negative prompt; latents from noise to clean."""
    visited = [path[-1]]
    for t in timesteps(len(path) - 1):
        uncond, cond = call(model, visited[-1], t, text), call(model, visited[-1], t, text)
        output = uncond + guidance * (cond - uncond)
        visited.append(denoise(visited[-1], output, t, len(path) - 1, velocity=velocity))
    return visited


@dataclass
class NullText:
    """Embeddings and iteration counts of each step, and the latents the optimised branch visits."""

    embeddings: list[Tensor] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    visited: list[Tensor] = field(default_factory=list)


def null_text(
    model: Denoiser,
    path: Sequence[Tensor],
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    inner_steps: int = 10,
    tolerance: float = 1e-5,
    velocity: bool = False,
) -> NullText:
    """Optimise the null embedding of one image, step by step (Mokady et al. 2022)."""
    steps, result = len(path) - 1, NullText()
    z, current = path[-1], null.clone()
    result.visited.append(z)
    for i, t in enumerate(timesteps(steps)):
        wanted = path[len(path) - i - 2]
        current = current.clone().detach().requires_grad_()
        optimiser = torch.optim.Adam([current], lr=1e-2 * (1.0 - i / 100.0))
        with torch.no_grad():
            cond = call(model, z, t, text)
        done = 0
        for _ in range(inner_steps):
            uncond = call(model, z, t, current)
            reached = denoise(z, uncond + guidance * (cond - uncond), t, steps, velocity=velocity)
            loss = torch.nn.functional.mse_loss(reached, wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += 1
            if loss.item() < tolerance + i * 2e-5:
                break
        with torch.no_grad():  # both halves again, as in the published code
            uncond, cond = call(model, torch.cat([z, z]), t, torch.cat([current, text])).chunk(2)
            z = denoise(z, uncond + guidance * (cond - uncond), t, steps, velocity=velocity)
        result.embeddings.append(current.detach())
        result.iterations.append(done)
        result.visited.append(z)
    return result


@dataclass(frozen=True)
class Target:
    """An edited caption's embedding (1, L, D), the maps it takes from the source, and word weights."""

    text: Tensor
    carried: Carried
    gains: dict[int, float]


@dataclass
class PaperControl:
    """Prompt-to-prompt on the batch [source uncond, targets uncond, source cond, targets cond]."""

    targets: Sequence[Target]
    inject_self: bool
    edit_cross: bool
    watched: list[Tensor] = field(default_factory=list)
    map_bytes: int = 0

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Explicit maps; those of the targets' conditional rows are replaced."""
        maps = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), dim=-1)
        self.map_bytes += maps.numel() * maps.element_size()
        rows = list(maps)
        first = len(self.targets) + 1
        source = rows[first]
        for number, target in enumerate(self.targets, start=first + 1):
            if site.is_cross and self.edit_cross:
                rows[number] = edited(source, rows[number], target)
            elif not site.is_cross and self.inject_self and query.shape[2] <= 1024:
                rows[number] = source
        if site.is_cross:
            self.watched.append(torch.stack([row.mean(dim=0) for row in rows[first:]]))
        return torch.stack(rows) @ value


def edited(source: Tensor, own: Tensor, target: Target) -> Tensor:
    """Maps (heads, queries, L) of a target: token by token the source's or its own, times its weight."""
    result = own.clone()
    for j in range(own.shape[-1]):
        if j in target.carried:
            result[..., j] = 0
            for i, weight in target.carried[j]:
                result[..., j] += weight * source[..., i]
        result[..., j] *= target.gains.get(j, 1.0)
    return result


def local_mask(heat: Tensor) -> Tensor:
    """Positions (side, side) that are strong or have a strong position among their eight neighbours."""
    side, mask = heat.shape[0], torch.zeros_like(heat, dtype=torch.bool)
    strongest = float(heat.max())
    for row in range(side):
        for column in range(side):
            near = heat[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
            mask[row, column] = strongest > 0 and float(near.max()) > 0.3 * strongest
    return mask


@dataclass
class Blend:
    """Local blend as published: the changed words' attention summed over steps, from a fifth of these on."""

    source_words: list[int]
    target_words: list[int]
    heats: list[Tensor] = field(default_factory=list)

    def __call__(self, control: PaperControl, latents: Tensor, step: int, steps: int) -> Tensor:
        """Restore the source (first row) where the changed words of the target have no attention."""
        source, target = torch.stack(control.watched).mean(dim=0)
        side = math.isqrt(source.shape[0])
        heat = [source[:, self.source_words].sum(dim=1), target[:, self.target_words].sum(dim=1)]
        self.heats.append(torch.stack(heat).reshape(2, side, side))
        if step < steps // 5:
            return latents
        total = torch.stack(self.heats).sum(dim=0)
        mask = local_mask(total[0]) | local_mask(total[1])
        return torch.cat([latents[:1], torch.where(mask, latents[1:], latents[:1])])


def prompt_to_prompt(
    model: Denoiser,
    path: Sequence[Tensor],
    texts: tuple[Tensor, Tensor],
    nulls: Sequence[Tensor],
    *,
    carried: Carried,
    gains: dict[int, float],
    guidance: float,
    cross_steps: int,
    self_steps: int,
    pinned: bool = False,
    blend: Blend | None = None,
    velocity: bool = False,
) -> tuple[Tensor, Tensor]:
    """Denoise source and one target (1, C, H, W) together."""
    both = prompt_to_prompts(
        model, path, texts[0], nulls, [Target(texts[1], carried, gains)], guidance=guidance,
        cross_steps=cross_steps, self_steps=self_steps, pinned=pinned, blend=blend, velocity=velocity,
    )  # fmt: skip
    return both[:1], both[1:]


def prompt_to_prompts(
    model: Denoiser,
    path: Sequence[Tensor],
    text: Tensor,
    nulls: Sequence[Tensor],
    targets: Sequence[Target],
    *,
    guidance: float,
    cross_steps: int,
    self_steps: int,
    pinned: bool = False,
    blend: Blend | None = None,
    velocity: bool = False,
) -> Tensor:
    """Denoise source and E targets (1 + E, C, H, W) together; ``pinned`` resets the source to its path."""
    steps = len(path) - 1
    latents = path[-1].repeat(1 + len(targets), 1, 1, 1)
    for i, t in enumerate(timesteps(steps)):
        control = PaperControl(targets, inject_self=i < self_steps, edit_cross=i < cross_steps)
        texts = torch.cat([nulls[i]] * len(latents) + [text] + [target.text for target in targets])
        with torch.no_grad():
            uncond, cond = call(model, torch.cat([latents, latents]), t, texts, control).chunk(2)
        latents = denoise(latents, uncond + guidance * (cond - uncond), t, steps, velocity=velocity)
        if pinned:
            offset = path[steps - i - 1] - latents[:1]
            latents = torch.cat([latents[:1] + offset, latents[1:]])
        if blend is not None:
            latents = blend(control, latents, i, steps)
    return latents
