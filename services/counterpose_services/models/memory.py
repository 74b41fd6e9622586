"""How much memory a service needs: its weights in their precision, and an allowance for what it computes.

The weights are counted from the headers of the safetensors files, without reading a tensor. The allowance is
a statement, held against what published architectures took in `make rehearse`; `counterpose-services check
--load` measures. Files are mapped while they load, and the system takes their pages back: they do not count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open

from counterpose_core.suite import EditorSuite, Suite
from counterpose_services.models.published_sizes import SIZES
from counterpose_services.service_options import BYTES, Precision, ServiceName

LIBRARIES_BYTES = 512 * 2**20
"""torch's libraries with their workspace, in each replica; CUDA's context is about as large."""
GRADIENT_BYTES = 3 * 2**18
"""What a null-text step or a step of a token's learning takes, in float32 for each position of the latents.

Attention keeps no maps. Half precision takes half."""
DECODING_BYTES = 4096
"""What the autoencoder takes for each pixel at its last blocks, always in float32."""
LATENT_STRIDE = 8
"""Pixels a position, at each side, of the supported autoencoders."""
PROMPT_TOKENS = {"captioner": 48, "perturber": 160}
"""Tokens before the answer: a caption's image tokens and prefix; an instruction with its caption."""


def weights_bytes(files: list[Path], dtype: Precision) -> int:
    """Return the bytes of all floating-point tensors in ``dtype``, and of all others as they are stored."""
    return sum(_tensor_bytes(file, dtype) for file in files)


def _tensor_bytes(file: Path, dtype: Precision) -> int:
    total = 0
    with safe_open(file, framework="numpy") as opened:
        for name in opened.keys():  # noqa: SIM118  # a SafeTensors file is no mapping
            part = opened.get_slice(name)
            kind, count = part.get_dtype(), math.prod(part.get_shape())
            floating = kind.startswith(("F", "BF"))
            total += count * (BYTES[dtype] if floating else _STORED.get(kind, 8))
    return total


_STORED = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4}


def allowance_bytes(service: ServiceName, suite: Suite, dtype: Precision, folder: Path | None) -> int:
    """Return the stated allowance for activations and libraries, for one replica.

    Captioner and perturber: the keys and values of a full batch, from the model's configuration. Editor: one
    image, because its batches shrink until they fit.
    """
    return LIBRARIES_BYTES + sum(_activations(service, suite, BYTES[dtype], folder))


def _activations(service: ServiceName, suite: Suite, size: int, folder: Path | None) -> Iterator[int]:
    if service == "editor":
        yield max(_editing(suite.editor, size))
    elif service == "captioner" and suite.captioner.engine != "openai":
        of = suite.captioner
        tokens = of.batch * of.beams * (PROMPT_TOKENS[service] + of.max_tokens)
        yield tokens * size * _token_values(of.model, folder)
    elif service == "perturber" and suite.perturber is not None and suite.perturber.engine != "openai":
        spoken = suite.perturber
        tokens = spoken.batch * (PROMPT_TOKENS[service] + spoken.max_new_tokens)
        yield tokens * size * _token_values(spoken.model, folder)


def _editing(editor: EditorSuite, size: int) -> Iterator[int]:
    """Yield what one image takes to be decoded, and with a gradient if the suite says that it needs one."""
    yield editor.resolution**2 * DECODING_BYTES
    learns = "textual_inversion" in editor.model_fields_set
    if learns or any(preset.inversion == "null-text" for preset in editor.presets.values()):
        positions = (editor.resolution // LATENT_STRIDE) ** 2
        yield positions * GRADIENT_BYTES * size // BYTES["float32"]


def _token_values(name: str, folder: Path | None) -> int:
    """Return the number of one token's keys and values in all layers of a language model."""
    if folder is None:
        return SIZES[name].token_values if name in SIZES else 0
    # Before anything that imports torchvision, as transformers does.
    from counterpose_core import torchvision_operators  # noqa: F401

    # isort: split
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config()
    heads = int(config.num_attention_heads)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    return 2 * int(config.num_hidden_layers) * kept * width


def device_bytes(device: str) -> list[int]:
    """Return the memory of every GPU that ``device`` names, or what this machine has free.

    Ray spreads the replicas on ``cuda`` over all GPUs; an indexed GPU and the CPU are one unit.
    """
    if device == "cpu":
        return [_available_bytes()]
    import torch

    _, _, index = device.partition(":")
    chosen = [int(index)] if index else range(torch.cuda.device_count())
    return [int(torch.cuda.get_device_properties(one).total_memory) for one in chosen]


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        # Systems without it tell the whole memory only.
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024
