"""The generator's model card: what it is, how it was trained, what was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from faultline_miniature.training.stage import StageContext, figures_of

_CARD = """---
library_name: diffusers
pipeline_tag: text-to-image
---

# Miniature generator

A Stable-Diffusion-class text-to-image model of the miniature world: 64x64 images, 24 tokens, the world's
closed vocabulary. Loads with `diffusers.StableDiffusionPipeline`; weights are half precision for storage:
load them with `dtype=torch.float32` on a CPU. Use guidance 3 to 4.

## Parts

- `vae`: AutoencoderKL, f = 4, 16x16x4 latents, normalised per channel inside its 1x1 convolutions, so the
  scaling factor is 1.
- `unet`: UNet2DConditionModel, cross-attention at 16x16, 8x8 and the middle, two heads, v-prediction.
- `text_encoder`: CLIPTextModel, trained together with the denoiser; word-level tokenizer.
- `scheduler`: DDIM, scaled-linear betas 0.00085 to 0.012.

## Training

`python -m faultline_miniature.training autoencoder latents decoder denoiser`. Images come from the world's
training seeds under the generator's distribution; four class x attribute combinations are withheld. The
autoencoder minimises absolute plus squared error with the object's area counted twice; its decoder is then
trained further alone, on slopes too. The denoiser minimises the velocity error, weighted by a clamped
signal-to-noise ratio, over stratified steps, with {dropout} of captions dropped; the published weights are a
moving average.

## Measured

{measured}

Agreement of a pixel probe with the caption, on {split} seeds (the probe is a training aid and is not the
oracle that judges edits), with the same probe on rendered images and on their reconstructions beside it:

{table}

```json
{figures}
```
"""


def write_card(context: StageContext, folder: Path, figures: dict[str, Any]) -> None:
    """Write README.md into the generator's folder."""
    autoencoder = figures_of(context, "autoencoder") or {}
    autoencoder |= figures_of(context, "decoder") or {}
    latents = figures_of(context, "latents") or {}
    table = agreement_table(figures)
    measured = (
        f"Reconstruction: {autoencoder.get('psnr_db', 0.0):.1f} dB over {autoencoder.get('held_out')} "
        f"development images. Trained on {latents.get('count')} images; {figures['step']} denoiser steps."
    )
    text = _CARD.format(
        dropout="12 %",
        split=figures["split"],
        measured=measured,
        table=table,
        figures=json.dumps(figures, indent=2),
    )
    (folder / "README.md").write_text(text)


def agreement_table(figures: dict[str, Any]) -> str:
    """Return the agreement per attribute with its 95 % interval, as a Markdown table."""
    lines = ["| attribute | generated | 95 % interval | n | reconstructed | rendered |", "| --- " * 6 + "|"]
    for name, rate in figures["agreement"].items():
        low, high = wilson_interval(rate, figures["n"])
        beside = " | ".join(
            f"{figures[kind][name]:.2f}" if kind in figures else "-" for kind in ("rebuilt", "rendered")
        )
        lines.append(f"| {name} | {rate:.2f} | {low:.2f} to {high:.2f} | {figures['n']} | {beside} |")
    return "\n".join(lines)


def wilson_interval(rate: float, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a rate over n trials (Wilson 1927)."""
    z2 = 1.96**2 / n
    centre = (rate + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (rate * (1 - rate) + z2 / 4)) / (1 + z2)
    return max(centre - half, 0.0), min(centre + half, 1.0)
