"""The rows of one architecture on one device, measured or left open."""

from __future__ import annotations

from dataclasses import replace

import torch

from evaluation.benchmarks.device import throughput
from evaluation.benchmarks.device.networks import Architecture, Model, Networks, build
from evaluation.benchmarks.device.throughput import F_FLOPS, REAL, SMALL, SWEEP, Load
from evaluation.benchmarks.report import Row, Target, at_least, at_most, row

IMAGES_A_SECOND: dict[Model, Target] = {"sd14": at_least(6.0), "sdxl": at_least(1.7)}
MEMORY = at_most(16.0)


def open_rows() -> list[Row]:
    """The rows that only an accelerator can measure, without a value."""
    return [
        row("E5", "share of the measured bf16 matrix peak, SD 1.4", [], at_least(0.5)),
        row("E5", "F/s, SD 1.4, bf16", [], at_least(600)),
        row("E4", "times the reference's edits a second on the same device, exact, SD 1.4", [], at_least(12)),
        row("E4", "times the reference's edits a second on the same device, fast, SD 1.4", [], at_least(60)),
        row("E6", "times the null-text images a second of batch 1, batch 16, SD 1.4", [], at_least(8)),
        row("E7", "GB at most, null-text and edits at E=5, SD 1.4", [], MEMORY),
        row("T1", "images a second, SD 1.4, 512 pixels, 50 steps", [], IMAGES_A_SECOND["sd14"]),
        row("T1", "images a second, SDXL, 1024 pixels, 50 steps", [], IMAGES_A_SECOND["sdxl"]),
    ]


def measured(model: Model, device: torch.device, *, small: bool) -> list[Row]:
    """Measure one architecture; targets are for published sizes on an accelerator, and left out elsewhere."""
    published = Architecture.read(model)
    architecture = published.small() if small else published
    networks = build(architecture, device, torch.bfloat16)
    load = SMALL if small else REAL
    rows = [
        *_speed(model, networks, load),
        *_editing(model, networks, load),
        *_against_reference(architecture, networks, load),
    ]
    if not small and device.type == "cuda":
        return rows
    return [one.model_copy(update={"target": None, "met": None}) for one in rows]


def _speed(model: Model, networks: Networks, load: Load) -> list[Row]:
    peak = throughput.matrix_flops(networks.device, torch.bfloat16, load)
    each = networks.evaluation_flops
    rate = throughput.evaluations(networks, load)
    best = max(peak)
    shape = f"{model}, bf16, batch {load.batch}"
    return [
        row("E5", f"TFLOP/s of a bf16 matrix product of {load.gemm}", [one / 1e12 for one in peak]),
        row("E5", f"F of one evaluation, {model}", [each / F_FLOPS]),
        row("E5", f"F/s ({shape})", [one * each / F_FLOPS for one in rate], at_least(600)),
        row("E5", f"share of the measured matrix peak ({shape})", [one * each / best for one in rate],
            at_least(0.5)),
        row("T1", f"images a second, {load.steps} steps and decoding ({shape})",
            throughput.images(networks, load), IMAGES_A_SECOND.get(model)),
    ]  # fmt: skip


def _editing(model: Model, networks: Networks, load: Load) -> list[Row]:
    single = throughput.inversions(networks, load, 1)
    together = throughput.inversions(networks, load, load.batch)
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
