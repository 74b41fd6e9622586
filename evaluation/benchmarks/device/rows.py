"""The rows of one architecture on one device, measured or left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from evaluation.benchmarks.device import throughput
from evaluation.benchmarks.device.networks import Architecture, Model, Networks, build
from evaluation.benchmarks.device.throughput import F_FLOPS, REAL, SMALL, SWEEP, Load
from evaluation.benchmarks.report import Row, Target, at_least, at_most, row

IMAGES_A_SECOND: dict[Model, Target] = {"sd14": at_least(6.0), "sdxl": at_least(1.7)}
MEMORY = at_most(16.0)
GUIDED_ROWS = 2
"""Rows of one image: with its prompt and without."""


def open_rows() -> list[Row]:
    """The rows that only an accelerator can measure, without a value."""
    return [
        row("E5", "share of the measured bf16 matrix peak, SD 1.4", [], at_least(0.5)),
        row("E5", "F/s, SD 1.4, bf16", [], at_least(600)),
        row("E4", "times the reference's edits a second on the same device, exact, SD 1.4", [], at_least(12)),
        row("E4", "times the reference's edits a second on the same device, fast, SD 1.4", [], at_least(60)),
        row("E6", "times the null-text images a second of batch 1, batch 16, SD 1.4", [], at_least(8)),
        row("E7", "GB at most, null-text and edits at E=5, SD 1.4", [], MEMORY),
        row("S1", "images a second, CLIP ViT-L/14", [], at_least(2500)),
        row("S1", "images a second, ResNet-50", [], at_least(10_000)),
        row("T1", "images a second, SD 1.4, 512 pixels, 50 steps", [], IMAGES_A_SECOND["sd14"]),
        row("T1", "images a second, SDXL, 1024 pixels, 50 steps", [], IMAGES_A_SECOND["sdxl"]),
    ]


def measured(
    model: Model, device: torch.device, *, small: bool, compiled: bool = False
) -> Iterator[list[Row]]:
    """Measure one architecture part by part; targets are for published sizes on an accelerator.

    What is asked first is what matters most, because time on an accelerator may end.
    """
    published = Architecture.read(model)
    architecture = published.small() if small else published
    networks = build(architecture, device, torch.bfloat16)
    load = SMALL if small else REAL
    for rows in _parts(model, architecture, networks, load, compiled=compiled):
        if small or device.type != "cuda":
            rows = [one.model_copy(update={"target": None, "met": None}) for one in rows]
        yield rows


def _parts(
    model: Model, architecture: Architecture, networks: Networks, load: Load, *, compiled: bool
) -> Iterator[list[Row]]:
    eager = throughput.evaluations(networks, load, load.rows)
    alone = throughput.evaluations(networks, load, GUIDED_ROWS)
    peak = max(throughput.matrix_flops(networks.device, torch.bfloat16, load))
    how = "as loaded"
    if compiled:
        networks.denoiser.compile()
        how = "compiled"
    yield [
        *_rates(model, networks, load, how, peak),
        row("E5", f"TFLOP/s of a bf16 matrix product of {load.gemm}", [peak / 1e12]),
        row("E5", f"F/s, not compiled ({model}, bf16, {load.rows} rows)", _in_f(networks, eager)),
        row("E5", f"F/s, not compiled ({model}, bf16, one guided image)", _in_f(networks, alone)),
    ]
    yield [_images(model, networks, load, how)]
    yield _scoring(networks.device, load)
    yield _editing(model, networks, load)
    yield _against_reference(architecture, networks, load)
    if networks.device.type == "cuda":
        yield _beside_graph(model, networks, load, how)


def _in_f(networks: Networks, rates: list[float]) -> list[float]:
    return [one * networks.evaluation_flops / F_FLOPS for one in rates]


def _rates(model: Model, networks: Networks, load: Load, how: str, peak: float) -> list[Row]:
    packed = throughput.evaluations(networks, load, load.rows)
    one = throughput.evaluations(networks, load, GUIDED_ROWS)
    return [
        row("E5", f"F of one evaluation, {model}", [networks.evaluation_flops / F_FLOPS]),
        row("E5", f"F/s ({model}, bf16, {how}, {load.rows} rows)", _in_f(networks, packed), at_least(600)),
        row("E5", f"share of the measured matrix peak ({model}, bf16, {how}, {load.rows} rows)",
            [each * networks.evaluation_flops / peak for each in packed], at_least(0.5)),
        row("E5", f"times one guided image's evaluations a second, {load.rows} rows ({model}, bf16, {how})",
            [each / other for each, other in zip(packed, one, strict=True)], at_least(3)),
    ]  # fmt: skip


def _beside_graph(model: Model, networks: Networks, load: Load, how: str) -> list[Row]:
    packed = throughput.evaluations(networks, load, load.rows)
    graphed = throughput.graphed_evaluations(networks, load, GUIDED_ROWS)
    gain = [each / other for each, other in zip(packed, graphed, strict=True)]
    measure = f"times the evaluations a second of one guided image in a CUDA graph, {load.rows} rows"
    return [row("E5", f"{measure} ({model}, bf16, {how})", gain)]


def _images(model: Model, networks: Networks, load: Load, how: str) -> Row:
    shape = f"{model}, bf16, {how}, batch {load.images_at_once}"
    return row("T1", f"images a second, {load.steps} steps and decoding ({shape})",
               throughput.images(networks, load), IMAGES_A_SECOND.get(model))  # fmt: skip


def _scoring(device: torch.device, load: Load) -> list[Row]:
    return [
        row("S1", f"images a second, {name}, {precision}", rates, least)
        for name, precision, rates, least in (
            (load.clip, "float32", throughput.clip_images(device, load, torch.float32), at_least(2500)),
            (load.clip, "bf16", throughput.clip_images(device, load, torch.bfloat16), at_least(2500)),
            (load.resnet, "float32", throughput.resnet_images(device, load, torch.float32), at_least(10_000)),
            (load.resnet, "bf16", throughput.resnet_images(device, load, torch.bfloat16), at_least(10_000)),
        )
    ]


def _editing(model: Model, networks: Networks, load: Load) -> list[Row]:
    few = replace(load, edit_steps=load.oracle_steps)
    single = throughput.inversions(networks, few, 1)
    together = throughput.inversions(networks, few, load.batch)
    gain = [one / other for one, other in zip(together, single, strict=True)]
    shape = f"{model}, bf16, N={load.images}, E={load.edits}, {load.edit_steps} steps"
    found = [
        row("E6", f"times the null-text images a second of batch 1, batch {load.batch} ({model})", gain,
            at_least(8)),
    ]  # fmt: skip
    if networks.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(networks.device)
    inversions = {"null-text": throughput.null_text, "direct": throughput.direct}
    for name, invert in inversions.items():
        for wording, sweep in (("full sweep", SWEEP), ("largest value alone", SWEEP[-1:])):
            rate = throughput.edits(networks, load, invert, sweep)
            found.append(row("E4", f"edits a second, {name}, {wording} ({shape})", rate))
    if networks.device.type == "cuda":
        used = torch.cuda.max_memory_allocated(networks.device) / 1e9
        found.append(row("E7", f"GB at most ({shape})", [used], MEMORY))
    return found


def _against_reference(architecture: Architecture, networks: Networks, load: Load) -> list[Row]:
    """Compare both modes with the reference on the same device, at fewer steps: the ratios are the same."""
    short = replace(load, edit_steps=load.oracle_steps)
    reference = throughput.reference_edits(architecture, networks, load)[0]
    exact = throughput.edits(networks, short, throughput.null_text, SWEEP)
    fast = throughput.edits(networks, short, throughput.direct, SWEEP[-1:])
    shape = f"E={load.edits}, {load.oracle_steps} steps"
    return [
        row("E4", f"times the reference's edits a second, null-text, full sweep ({shape})",
            [one / reference for one in exact], at_least(12)),
        row("E4", f"times the reference's edits a second, direct, largest value alone ({shape})",
            [one / reference for one in fast], at_least(60)),
    ]  # fmt: skip
