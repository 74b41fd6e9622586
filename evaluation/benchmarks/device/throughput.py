"""How fast a device is on one architecture: F/s, share of its matrix peak, images and edits a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, cross_edit
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from evaluation.benchmarks.device.networks import Architecture, Networks
from evaluation.reference.plain_driver import direct_inversion, edit, generate, null_text_inversion
from evaluation.reference.plain_editing import Target
from evaluation.reference.plain_unet import PlainUNet
from evaluation.reference.reference_run import reference_run

F_FLOPS = 0.803e12
"""1 F: one evaluation of SD 1.4 at 512 pixels."""
GUIDANCE, CROSS = 7.5, 0.8
DECODED = 8
"""Latents decoded in one pass."""
SWEEP = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Sizes of one measurement."""

    gemm: int
    rows: int
    images_at_once: int
    scored: int
    clip: str
    resnet: str
    batch: int
    images: int
    edits: int
    steps: int
    edit_steps: int
    inner_steps: int
    oracle_steps: int
    repetitions: int


REAL = Load(
    gemm=8192,
    rows=128,
    images_at_once=64,
    scored=256,
    clip="ViT-L-14",
    resnet="resnet50",
    batch=16,
    images=4,
    edits=5,
    steps=50,
    edit_steps=5,
    inner_steps=10,
    oracle_steps=4,
    repetitions=2,
)
SMALL = Load(
    gemm=64,
    rows=2,
    images_at_once=2,
    scored=1,
    clip="ViT-S-32-alt",
    resnet="resnet10t",
    batch=2,
    images=1,
    edits=1,
    steps=2,
    edit_steps=2,
    inner_steps=1,
    oracle_steps=1,
    repetitions=1,
)


def seconds(work: Callable[[], object], device: torch.device, repetitions: int) -> list[float]:
    """Time ``work`` after one run to warm up; a device is waited for before each look at the clock."""
    work()
    return [lap(work, device) for _ in range(repetitions)]


def lap(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that ``work`` takes."""
    _wait(device)
    started = perf_counter()
    work()
    _wait(device)
    return perf_counter() - started


def _random(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Draw a tensor: a card is faster on equal numbers than on those of real work."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_flops(device: torch.device, dtype: torch.dtype, load: Load) -> list[float]:
    """Operations a second of a square matrix product: the peak that can be had in practice."""
    matrix = _random((load.gemm, load.gemm), device, dtype)
    return [
        2 * load.gemm**3 / each for each in seconds(lambda: matrix @ matrix, device, load.repetitions + 4)
    ]


@torch.no_grad()
def evaluations(networks: Networks, load: Load, rows: int) -> list[float]:
    """Evaluations a second in calls of ``rows``."""
    latents, text = networks.noise(rows), networks.text(rows)
    time = torch.full((rows,), 500, device=networks.device)
    laps = seconds(lambda: networks.denoiser(latents, time, text), networks.device, load.repetitions + 2)
    return [rows / each for each in laps]


@torch.no_grad()
def graphed_evaluations(networks: Networks, load: Load, rows: int) -> list[float]:
    """Evaluations a second where a CUDA graph replays the call, so that no kernel waits to be launched."""
    latents, text = networks.noise(rows), networks.text(rows)
    time = torch.full((rows,), 500, device=networks.device)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        networks.denoiser(latents, time, text)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        networks.denoiser(latents, time, text)
    return [rows / each for each in seconds(graph.replay, networks.device, load.repetitions + 2)]


@torch.no_grad()
def clip_images(device: torch.device, load: Load, dtype: torch.dtype) -> list[float]:
    """Images a second through an image encoder of CLIP, weights random."""
    import open_clip

    # It moves what it made to its own argument's device, by default the processor.
    encoder = open_clip.create_model(load.clip, pretrained=None, device=device).visual.to(dtype).eval()
    pixels = _random((load.scored, 3, 224, 224), device, dtype)
    return [load.scored / each for each in seconds(lambda: encoder(pixels), device, load.repetitions + 2)]


@torch.no_grad()
def resnet_images(device: torch.device, load: Load, dtype: torch.dtype) -> list[float]:
    """Images a second through a classifier, weights random."""
    import timm

    with device:
        network = timm.create_model(load.resnet, pretrained=False)
    network = network.to(dtype=dtype, memory_format=torch.channels_last).eval()
    pixels = _random((load.scored, 3, 224, 224), device, dtype)
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    return [load.scored / each for each in seconds(lambda: network(pixels), device, load.repetitions + 2)]


@torch.no_grad()
def images(networks: Networks, load: Load) -> list[float]:
    """Images a second, text to pixels, guided."""
    table = networks.schedule.timetable(load.steps)
    count = load.images_at_once
    noise, text, null = networks.noise(count), networks.text(count), networks.text(1, seed=2)[0]
    short = networks.schedule.timetable(1)

    def work(levels: Timetable = table) -> None:
        latents = generate(networks.denoiser, levels, noise, text, null, guidance=GUIDANCE)
        for part in latents.split(DECODED):
            networks.vae.decode(part.to(networks.vae.dtype))

    # One step warms up as well as fifty.
    work(short)
    laps = [lap(work, networks.device) for _ in range(load.repetitions)]
    return [count / each for each in laps]


def inversions(networks: Networks, load: Load, batch: int) -> list[float]:
    """Images a second through null-text inversion, in batches of the given size."""
    laps = seconds(lambda: null_text(networks, load, batch), networks.device, load.repetitions)
    return [batch / each for each in laps]


def null_text(networks: Networks, load: Load, batch: int) -> Inverted:
    """Invert drawn latents; every inner iteration is made."""
    settings = NullTextSettings(guidance=GUIDANCE, inner_steps=load.inner_steps, tolerance=0.0)
    table, null = networks.schedule.timetable(load.edit_steps), networks.text(1, seed=2)[0]
    return null_text_inversion(
        networks.denoiser, table, 0.5 * networks.noise(batch), networks.text(batch), null, settings
    )


def direct(networks: Networks, load: Load, batch: int) -> Inverted:
    """Invert drawn latents without optimisation."""
    table, null = networks.schedule.timetable(load.edit_steps), networks.text(1, seed=2)[0]
    return direct_inversion(networks.denoiser, table, 0.5 * networks.noise(batch), networks.text(batch), null)


def edits(
    networks: Networks,
    load: Load,
    invert: Callable[[Networks, Load, int], Inverted],
    sweep: tuple[float, ...],
) -> list[float]:
    """Edited captions a second, inversion and sweep together."""
    table, captions = networks.schedule.timetable(load.edit_steps), networks.text(load.images)
    cross, edited = swap(networks.tokens), networks.text(load.edits, seed=3)
    tasks = [EditTask(row, text, cross) for row in range(load.images) for text in edited]
    settings = EditSettings(guidance=GUIDANCE, cross_replace=CROSS, self_replace=sweep, batch=load.batch)

    def work() -> None:
        inverted = invert(networks, load, load.images)
        edit(networks.denoiser, table, inverted, captions, tasks, settings)

    return [len(tasks) / each for each in seconds(work, networks.device, load.repetitions)]


def swap(length: int) -> CrossEdit:
    """Return an edit that exchanges one word of two."""
    source, target = (TokenizedPrompt((0, 5, word, 1), (None, 0, 1, None)) for word in (6, 7))
    return cross_edit(align(source, target), length, word_weight=2.0)


def reference_edits(architecture: Architecture, networks: Networks, load: Load) -> list[float]:
    """Edited captions a second by the reference: float32, one image, weights requiring gradients."""
    with torch.random.fork_rng(devices=[]), networks.device:
        torch.manual_seed(0)
        plain = PlainUNet(architecture.build_reference_unet())
    length = networks.tokens
    carried = {place: [(place, 1.0)] for place in range(length)}
    targets = [Target(text[None], carried, {2: 2.0}) for text in networks.text(load.edits, seed=3)]

    def work() -> None:
        reference_run(
            plain, 0.5 * networks.noise(1), networks.text(1), networks.text(1, seed=2), targets,
            parity="paper", steps=load.oracle_steps, inner_steps=load.inner_steps,
            tolerance=0.0, velocity=architecture.prediction == "v_prediction",
        )  # fmt: skip

    return [load.edits / each for each in seconds(work, networks.device, 1)]
