"""A network's safetensors file, written tensor by tensor: made on the meta device and filled on the way."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

SPREAD = 0.02
"""Standard deviation of vectors that are neither scales nor biases, such as a class embedding."""
LOGIT_SCALE = math.log(100.0)
"""At which CLIP was published, after training."""
_CODES: Mapping[torch.dtype, str] = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
}


@dataclass(frozen=True)
class Spec:
    """One tensor of a file: its name, its shape and its type."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size_bytes(self) -> int:
        """The bytes of the tensor."""
        return math.prod(self.shape) * self.dtype.itemsize


def specs_of(network: nn.Module, dtype: torch.dtype, prefix: str = "") -> list[Spec]:
    """Return what the library saves of a network: each parameter once, and its lasting buffers.

    Args:
        network: on the meta device.
        dtype: the type of all numbers that are not whole.
        prefix: in front of every name, as older releases saved them.
    """
    aliases = dict(network.named_parameters(remove_duplicate=False))
    tensors: dict[str, Tensor] = dict(network.named_parameters())
    tensors |= {name: each for name, each in network.state_dict().items() if name not in aliases}
    return [
        Spec(f"{prefix}{name}", tuple(each.shape), dtype if each.is_floating_point() else each.dtype)
        for name, each in tensors.items()
    ]


def write_network(
    folder: Path, file: str, specs: Sequence[Spec], generator: Generator, shard_bytes: int | None = None
) -> int:
    """Write random weights into ``file`` of a folder, or into shards with an index beside them.

    Args:
        folder: is created if it is missing.
        file: the name of the whole file, such as ``model.safetensors``.
        specs: the tensors.
        generator: of the random numbers.
        shard_bytes: largest size of a shard; one file if None or if all fits into one.

    Returns:
        The bytes of all tensors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards = _shards(specs, shard_bytes)
    stem, _, suffix = file.rpartition(".")
    names = [f"{stem}-{number + 1:05}-of-{len(shards):05}.{suffix}" for number in range(len(shards))]
    total = sum(spec.size_bytes for spec in specs)
    if len(shards) == 1:
        write_file(folder / file, specs, generator)
        return total
    for name, shard in zip(names, shards, strict=True):
        write_file(folder / name, shard, generator)
    places = {spec.name: name for name, shard in zip(names, shards, strict=True) for spec in shard}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / f"{file}.index.json").write_text(json.dumps(index), encoding="utf-8")
    return total


def _shards(specs: Sequence[Spec], shard_bytes: int | None) -> list[list[Spec]]:
    shards: list[list[Spec]] = [[]]
    size = 0
    for spec in specs:
        if shard_bytes is not None and shards[-1] and size + spec.size_bytes > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(spec)
        size += spec.size_bytes
    return shards


def write_file(file: Path, specs: Sequence[Spec], generator: Generator) -> None:
    """Write one safetensors file: the length of its header, the header, and the tensors in its order.

    The library's own function needs all tensors at once; one of a large file's is enough here.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    header |= {
        spec.name: {"dtype": _CODES[spec.dtype], "shape": spec.shape, "data_offsets": (start, end)}
        for spec, start, end in _places(specs)
    }
    written = json.dumps(header).encode()
    with file.open("wb") as out:
        out.write(len(written).to_bytes(8, "little"))
        out.write(written)
        for spec in specs:
            out.write(_bytes(drawn(spec, generator)))


def _places(specs: Sequence[Spec]) -> Iterator[tuple[Spec, int, int]]:
    end = 0
    for spec in specs:
        start, end = end, end + spec.size_bytes
        yield spec, start, end


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def drawn(spec: Spec, generator: Generator) -> Tensor:
    """Draw a tensor that keeps activations in range: by its number of inputs, scales 1, biases 0.

    Args:
        spec: its name says whether it is a scale, a bias, a variance or a matrix.
        generator: of the random numbers.
    """
    last = spec.name.rpartition(".")[2]
    if not spec.dtype.is_floating_point:
        return _whole(spec)
    if last in ("bias", "in_proj_bias", "running_mean"):
        return torch.zeros(spec.shape, dtype=spec.dtype)
    if last == "running_var" or (last in ("weight", "gamma") and len(spec.shape) == 1):
        return torch.ones(spec.shape, dtype=spec.dtype)
    if last == "logit_scale":
        return torch.full(spec.shape, LOGIT_SCALE, dtype=spec.dtype)
    inputs = math.prod(spec.shape[1:])
    spread = SPREAD if len(spec.shape) < 2 else 1.0 / math.sqrt(inputs)
    # Uniform numbers of this deviation: billions of normal ones take minutes.
    bound = spread * math.sqrt(3.0)
    made = torch.empty(spec.shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)
    return made.to(spec.dtype)


def _whole(spec: Spec) -> Tensor:
    """Return positions for a row of them, zeros for a count."""
    if not spec.shape:
        return torch.zeros((), dtype=spec.dtype)
    return torch.arange(spec.shape[-1], dtype=spec.dtype).expand(spec.shape)
