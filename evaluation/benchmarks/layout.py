"""Whether memory format and compiled blocks make an evaluation faster.

`python -m evaluation.benchmarks.layout` evaluates one UNet of Stable Diffusion 1.4's size, random weights,
as it is loaded, in channels-last format, and with its convolution blocks compiled; attention stays as it is,
because an edit replaces it call by call. The three take turns, and the same weights are converted between
them without being timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
import torch._dynamo
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor, nn

from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.benchmarks.device.networks import Architecture
from evaluation.benchmarks.interleaved import ratios
from evaluation.benchmarks.machine import this_machine
from evaluation.benchmarks.report import EditorBenchmark, Row, row
from evaluation.paths import RESULTS

OUT = RESULTS / "layout.json"
PLAIN, LAST, COMPILED = "as loaded", "channels-last", "compiled convolution blocks"
ROUNDS = 5
Prepare = Callable[[], object]


def measured(rows: int, rounds: int) -> list[Row]:
    """Time evaluations of ``rows`` samples in turn; return the ratios to the network as it is loaded."""
    architecture = Architecture.read("sd14")
    torch.manual_seed(0)
    unet = architecture.build_unet()
    denoiser, blocks = UNetDenoiser(unet), [one for one in unet.modules() if isinstance(one, ResnetBlock2D)]
    # By default, a ninth shape of a block is no longer compiled.
    torch._dynamo.config.recompile_limit = len(blocks)
    inputs = _inputs(architecture, rows)
    prepare: dict[str, Prepare] = {
        PLAIN: lambda: unet.to(memory_format=torch.contiguous_format),
        LAST: lambda: unet.to(memory_format=torch.channels_last),
        COMPILED: lambda: _compile(unet.to(memory_format=torch.contiguous_format), blocks),
    }
    laps: dict[str, list[float]] = {name: [] for name in prepare}
    with torch.no_grad():
        # The first round compiles and warms up.
        for number in range(rounds + 1):
            for name, ready in prepare.items():
                _plain(blocks)
                ready()
                started = time.process_time()
                denoiser(*inputs)
                if number > 0:
                    laps[name].append(time.process_time() - started)
    shape = f"SD 1.4, float32, {rows} row{'s' * (rows > 1)}"
    return [
        row(
            "L1", f"times as fast as loaded: {name} ({shape})", ratios(laps[PLAIN], laps[name]), advisory=True
        )
        for name in (LAST, COMPILED)
    ]


def _inputs(architecture: Architecture, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(rows, *architecture.latent_shape, generator=generator)
    return latents, torch.full((rows,), 500), torch.randn(rows, *architecture.text_shape, generator=generator)


def _compile(unet: nn.Module, blocks: Sequence[nn.Module]) -> nn.Module:
    for block in blocks:
        block.compile()
    return unet


def _plain(blocks: Sequence[nn.Module]) -> None:
    for block in blocks:
        block._compiled_call_impl = None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure on one thread, whose processor time does not depend on other load, and write the rows."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.benchmarks.layout")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each takes its turn")
    parser.add_argument(
        "--rows", type=int, default=2, help="samples of an evaluation, such as source and edit"
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = measured(given.rows, given.rounds)
    settings: dict[str, str | int | float | list[float]] = {"model": "sd14", "rounds": given.rounds}
    report = EditorBenchmark(machine=this_machine(), settings=settings, rows=rows)
    OUT.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
