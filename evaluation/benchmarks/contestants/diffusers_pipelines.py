"""diffusers' own pipelines on the same weights: text-to-image, and its null-text inversion written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor
from torch.nn.functional import mse_loss

from evaluation.benchmarks.workload import WEIGHTS


def pipeline(model: str = "editor") -> Any:
    """Load the folder as diffusers does; weights keep their gradients."""
    loaded = StableDiffusionPipeline.from_pretrained(
        WEIGHTS / model,
        use_safetensors=True,
        dtype=torch.float32,
        safety_checker=None,
        requires_safety_checker=False,
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def text_to_image(
    loaded: Any, prompts: Sequence[str], *, steps: int, guidance: float, batch: int
) -> list[Tensor]:
    """Make one image a prompt, in batches of the given size."""
    made = []
    for start in range(0, len(prompts), batch):
        chosen = list(prompts[start : start + batch])
        generators = [torch.Generator().manual_seed(start + row) for row in range(len(chosen))]
        made.append(
            loaded(
                chosen,
                num_inference_steps=steps,
                guidance_scale=guidance,
                generator=generators,
                output_type="pt",
            ).images
        )
    return made


def null_text(
    loaded: Any,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    steps: int,
    guidance: float,
    inner_steps: int,
    tolerance: float,
) -> tuple[Tensor, int]:
    """Invert (1, C, H, W) as the community pipeline does: one image, one loss read after each iteration.

    Returns:
        The reconstruction, and the number of inner iterations.
    """
    unet, scheduler = loaded.unet, loaded.scheduler
    wanted = _inverted(loaded, clean, text, steps)
    scheduler.set_timesteps(steps)
    z, current, inner = wanted[-1], null, 0
    for i, t in enumerate(scheduler.timesteps):
        current = current.clone().detach().requires_grad_()
        optimiser = torch.optim.Adam([current], lr=1e-2 * (1.0 - i / 100.0))
        with torch.no_grad():
            cond = unet(z, t, encoder_hidden_states=text).sample
        for _ in range(inner_steps):
            uncond = unet(z, t, encoder_hidden_states=current).sample
            reached = scheduler.step(uncond + guidance * (cond - uncond), t, z).prev_sample
            loss = mse_loss(reached, wanted[steps - i - 1])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            inner += 1
            if loss.item() < tolerance + i * 2e-5:
                break
        with torch.no_grad():
            both = unet(torch.cat([z, z]), t, encoder_hidden_states=torch.cat([current, text])).sample
            uncond, cond = both.chunk(2)
            z = scheduler.step(uncond + guidance * (cond - uncond), t, z).prev_sample
    return z, inner


@torch.no_grad()
def _inverted(loaded: Any, clean: Tensor, text: Tensor, steps: int) -> list[Tensor]:
    """DDIM inversion at guidance 1, from clean to noise."""
    scheduler, visited = loaded.scheduler, [clean]
    scheduler.set_timesteps(steps)
    for t in reversed(scheduler.timesteps):
        z = visited[-1]
        output = loaded.unet(z, t, encoder_hidden_states=text).sample
        # The scheduler's step is linear in the latents: solved for those that it takes to ``z``.
        at_zero = scheduler.step(output, t, torch.zeros_like(z)).prev_sample
        slope = scheduler.step(torch.zeros_like(z), t, torch.ones_like(z)).prev_sample
        visited.append((z - at_zero) / slope)
    return visited
