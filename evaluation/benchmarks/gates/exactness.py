"""E1: latents, embeddings, iteration counts and chosen values equal the reference's in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, cross_edit, refine, reweight
from counterpose_core.editing.denoiser import Denoiser
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.types import InjectionEnd, TokenAlignment, WeightedWords
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.report import Row, at_most, row
from evaluation.reference.plain_alignment import carried_maps
from evaluation.reference.plain_driver import edit, null_text_edit
from evaluation.reference.plain_editing import Target
from evaluation.reference.plain_unet import PlainUNet
from evaluation.reference.reference_run import (
    REPLACES,
    SWEEPS,
    Parity,
    ReferenceRun,
    chosen_value,
    reference_run,
)
from evaluation.reference.tiny_unet import tiny_unet
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

# 0.75 of ten steps are 7, and 8 as the released code counts.
GUIDANCE, CROSS, WEIGHT, TOLERANCE, IMAGES = 2.0, 0.75, 2.0, 0.02, 2
PARITIES: tuple[Parity, ...] = ("released", "paper")
SOURCE = ((5,), (6,), (7,))
"""The words of a caption."""
EDITED = (((5,), (9,), (7,)), ((5,), (9,), (6,), (7,)), ((5,), (7,), (5,)))
"""The words of its edits: one word exchanged, one added, and one removed while another is repeated."""
SETTINGS: dict[Parity, tuple[TokenAlignment, WeightedWords, InjectionEnd]] = {
    "released": ("released", "released", "released"),
    "paper": ("words", "added", "exact"),
}
"""How both sides align tokens, which words they weight and when injection ends."""


@dataclass(frozen=True)
class Network:
    """The same weights in the product's and the reference's network, and the shapes of their inputs."""

    name: str
    fast: Denoiser
    plain: Denoiser
    latents: tuple[int, int, int]
    width: int

    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Clean latents, captions, the empty prompt and the edited captions, drawn."""
        return (
            draw(IMAGES, *self.latents, seed=5),
            draw(IMAGES, LENGTH, self.width, seed=6),
            draw(LENGTH, self.width, seed=9),
            draw(len(EDITED), LENGTH, self.width, seed=7),
        )


def networks() -> list[Network]:
    """Two tiny networks with self- and cross-attention: one written out, one of diffusers' UNets."""
    toy = TinyAttention()
    fast, plain = UNetDenoiser(tiny_unet().double()), PlainUNet(tiny_unet().double())
    return [Network("toy", toy, toy, (2, 4, 4), WIDTH), Network("UNet", fast, plain, (4, 4, 4), 16)]


def rows(bench: Bench) -> list[Row]:
    """Compare both networks in both parity modes."""
    found = []
    for network in networks():
        for parity in PARITIES:
            found += _compared(network, parity, bench.sizes.exact_steps)
    return found


def _compared(network: Network, parity: Parity, steps: int) -> list[Row]:
    inverted, latents = _fast(network, parity, steps)
    plain = _plain(network, parity, steps)
    errors = [
        max(
            _gap(inverted.trajectory[number], torch.cat(one.inversion.visited)),
            _gap(inverted.uncond[number], torch.cat(one.inversion.embeddings)),
            _gap(latents[number], torch.stack(one.images, dim=1)),
        )
        for number, one in enumerate(plain)
    ]
    counts = [
        float(sum(a != b for a, b in zip(row_.tolist(), one.inversion.iterations, strict=True)))
        for row_, one in zip(inverted.inner_iterations, plain, strict=True)
    ]
    chosen = [
        float(_choice(ours, parity) != _choice(theirs, parity))
        for number, one in enumerate(plain)
        for ours, theirs in zip(latents[number], torch.stack(one.images, dim=1), strict=True)
    ]
    named = f"{network.name}, {parity}, float64"
    return [
        row("E1", f"largest difference of latents and embeddings ({named})", errors, at_most(1e-10)),
        row("E1", f"steps with another number of inner iterations ({named})", counts, at_most(0)),
        row("E1", f"edits with another sweep value chosen ({named})", chosen, at_most(0)),
    ]


def _fast(network: Network, parity: Parity, steps: int) -> tuple[Inverted, Tensor]:
    """Invert and edit all images together: (images, edits, sweep, C, H, W)."""
    clean, text, null, edited = network.inputs()
    table = NoiseSchedule().timetable(steps)
    settings = NullTextSettings(guidance=GUIDANCE, tolerance=TOLERANCE)
    tasks = [
        EditTask(image, embedding, _cross(alignment, parity, WEIGHT))
        for image in range(IMAGES)
        for alignment, embedding in zip(_alignments(), edited, strict=True)
    ]
    unweighted = [
        replace(task, cross=_cross(alignment, parity, 1.0))
        for task, alignment in zip(tasks, _alignments() * IMAGES, strict=True)
    ]

    def knobs(sweep: tuple[float, ...]) -> EditSettings:
        end = SETTINGS[parity][2]
        return EditSettings(guidance=GUIDANCE, cross_replace=CROSS, self_replace=sweep, injection_end=end)

    # The released code weights words at its first sweep value only: that one is made on the path of the
    # inversion, the others afterwards.
    here = SWEEPS[parity][:1] if parity == "released" else SWEEPS[parity]
    made = null_text_edit(network.fast, table, clean, text, null, settings, tasks, knobs(here))
    inverted, latents = made.inverted, made.edited.latents
    if parity == "released":
        rest = knobs(SWEEPS[parity][1:])
        later = edit(network.fast, table, inverted, text, unweighted, rest).latents
        latents = torch.cat([latents, later], dim=1)
    return inverted, latents.unflatten(0, (IMAGES, len(EDITED)))


def _plain(network: Network, parity: Parity, steps: int) -> list[ReferenceRun]:
    clean, text, null, edited = network.inputs()
    tokens, weighted, end = SETTINGS[parity]
    targets = []
    for words, embedding in zip(EDITED, edited, strict=True):
        carried, places = carried_maps(
            SOURCE, words, LENGTH, replace=REPLACES[parity], tokens=tokens, weighted=weighted
        )
        targets.append(Target(embedding[None], carried, dict.fromkeys(places, WEIGHT)))
    return [
        reference_run(
            network.plain, clean[number][None], text[number][None], null[None], targets, parity=parity,
            steps=steps, guidance=GUIDANCE, cross_replace=CROSS, tolerance=TOLERANCE, injection_end=end,
        )
        for number in range(IMAGES)
    ]  # fmt: skip


def _alignments() -> list[Alignment]:
    def prompt(words: Sequence[tuple[int, ...]]) -> TokenizedPrompt:
        ids = [token for word in words for token in word]
        return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))

    return [align(prompt(SOURCE), prompt(words)) for words in EDITED]


def _cross(alignment: Alignment, parity: Parity, weight: float) -> CrossEdit:
    tokens, weighted, _ = SETTINGS[parity]
    if REPLACES[parity]:
        return cross_edit(alignment, LENGTH, word_weight=weight, tokens=tokens, weighted=weighted)
    positions = alignment.repeated if weighted == "released" else alignment.added
    return reweight(refine(alignment, LENGTH, tokens), positions, weight)


def _choice(images: Tensor, parity: Parity) -> int | None:
    """Choose by artificial scores that depend on every number of an image."""
    directions = [float((image * draw(*image.shape, seed=3)).mean()) for image in images]
    floor = sorted(directions)[len(directions) // 3]
    return chosen_value([score >= floor for score in directions], directions, parity)


def _gap(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs.detach()).abs().max())
