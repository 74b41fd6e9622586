"""The machine that the figures were measured on, without names of hosts or folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

from evaluation.benchmarks.report import Machine

CPU_INFO = Path("/proc/cpuinfo")


def this_machine(device: str = "cpu") -> Machine:
    """Describe the machine and the libraries that compute."""
    accelerator = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        device=accelerator,
        python=platform.python_version(),
        torch=torch.__version__,
        diffusers=version("diffusers"),
    )


def _processor() -> str:
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
