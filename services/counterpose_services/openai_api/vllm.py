"""The command line and the environment of the ``vllm serve`` that a replica starts."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import safe_open

from counterpose_core.errors import ModelFormatRefused, UnknownModel

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The largest ranks of an adapter that vLLM can be started for."""
LAST_LAYER = "lm_head"
MOST_OF_A_GPU = 0.9
"""What vLLM takes of a GPU that it has alone."""
# Variables that would reach into the other interpreter, or have it download, report or load adapters.
_NOT_PASSED_ON = ("PYTHON", "VIRTUAL_ENV", "VLLM_ALLOW_RUNTIME", "VLLM_PLUGINS", "VLLM_API_KEY", "LD_PRELOAD")
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "0",
}
# Memory of keys and values on a CPU, in GiB; vLLM would take half of the machine.
_CPU_CACHE = {"VLLM_CPU_KVCACHE_SPACE": "1"}
_BATCH_INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}


@dataclass(frozen=True)
class VllmModel:
    """What one ``vllm serve`` has: a base under ``name``, and its adapters by their names."""

    folder: Path
    name: str
    dtype: str
    device: str
    gpu_share: float = 0.0
    adapters: Mapping[str, Path] = field(default_factory=dict)
    batch_invariant: bool = False

    @property
    def largest_rank(self) -> int:
        """The smallest rank of vLLM's that no adapter is above.

        Raises:
            ModelFormatRefused: vLLM loads no adapter as large.
        """
        largest = max(_rank(folder) for folder in self.adapters.values())
        for rank in RANKS:
            if largest <= rank:
                return rank
        raise ModelFormatRefused(f"an adapter has the rank {largest}, and vLLM loads none above {RANKS[-1]}")

    @property
    def adapted_layers(self) -> list[str]:
        """The names of the layers that an adapter changes, such as ``q_proj``.

        Raises:
            ModelFormatRefused: one is the last layer, of whose adapter vLLM's likelihoods leave out a part.
        """
        found = sorted(set().union(*(_layers(folder) for folder in self.adapters.values())))
        if LAST_LAYER in found:
            raise ModelFormatRefused(
                f"an adapter of {self.name!r} changes {LAST_LAYER!r}, which vLLM leaves out of likelihoods; "
                "use the engine 'transformers'"
            )
        return found


def _layers(adapter: Path) -> set[str]:
    with safe_open(adapter / "adapter_model.safetensors", framework="numpy") as opened:
        return {name.partition(".lora_")[0].rpartition(".")[2] for name in opened.keys()}  # noqa: SIM118


def vllm_command(program: Path, model: VllmModel, port: int, *, further: str = "") -> list[str]:
    """Return the command line of a server on loopback; ``further`` is read as a shell reads it."""
    command = [
        str(program), "serve", str(model.folder), "--served-model-name", model.name, "--dtype", model.dtype,
        # It would listen on every address.
        "--host", "127.0.0.1", "--port", str(port),
        "--enable-prefix-caching",
        # The model's own file may set a temperature or cut-offs that a request does not name.
        "--generation-config", "vllm",
        "--disable-log-stats", "--disable-uvicorn-access-log", "--disable-fastapi-docs",
    ]  # fmt: skip
    if model.device != "cpu":
        share = MOST_OF_A_GPU if model.gpu_share >= 1 or not model.gpu_share else model.gpu_share
        command += ["--gpu-memory-utilization", f"{share:g}"]
    if model.adapters:
        modules = [f"{name}={folder}" for name, folder in model.adapters.items()]
        # vLLM's CPU build gives a row of the base the adapter of the last place, wherever another row of its
        # batch has one (index -1 of its torch operators): there, the last place stays empty.
        places = len(modules) + (model.device == "cpu")
        command += ["--enable-lora", "--max-loras", str(places), "--max-lora-rank"]
        # Left open, vLLM also wraps the last layer, and a prompt's likelihoods beside other requests end it:
        # vllm-project/vllm issue 51594.
        command += [str(model.largest_rank), "--lora-target-modules", *model.adapted_layers]
        command += ["--lora-modules", *modules]
    return command + shlex.split(further)


def vllm_environment(model: VllmModel, *, key: str, threads: int) -> dict[str, str]:
    """Return the variables of this process without those of its Python, and vLLM's own.

    Args:
        model: what is served.
        key: the key that every call must have; not an argument, which every user of the machine could read.
        threads: threads of the computation on a CPU.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    own = _QUIET | {"VLLM_API_KEY": key} | (_BATCH_INVARIANT if model.batch_invariant else {})
    # On a GPU its threads only prepare, and on a CPU they compute.
    return _CPU_CACHE | kept | own | ({"OMP_NUM_THREADS": str(threads)} if model.device == "cpu" else {})


def require_program(program: Path | None, service: str) -> Path:
    """Return the program ``vllm``, which lives in an environment of its own.

    Raises:
        UnknownModel: none is named, or it is not there.
    """
    how = "run `make vllm`, or install vLLM into an environment of its own, and set COUNTERPOSE_SERVICES_VLLM"
    if program is None:
        raise UnknownModel(f"the {service}'s engine is 'vllm', and no program vllm is named; {how}")
    if not os.access(program, os.X_OK):
        raise UnknownModel(
            f"the {service}'s engine is 'vllm', and there is no program {str(program)!r}; {how}"
        )
    return program


def supports_batch_invariance(device: str) -> bool:
    """Return whether vLLM can make answers independent of what shares their batch: NVIDIA from Ampere on."""
    if device == "cpu":
        return False
    import torch

    major, _ = torch.cuda.get_device_capability(torch.device(device))
    return major >= 8


def _rank(adapter: Path) -> int:
    described = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    return max([int(described["r"]), *map(int, (described.get("rank_pattern") or {}).values())])
