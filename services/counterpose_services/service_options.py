"""What each service may have of its own: device, precision, GPU share, replicas and queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from counterpose_core.types import ServiceName

Precision = Literal["float32", "float16", "bfloat16"]
Device = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]

BYTES: Mapping[Precision, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of one number in each precision."""

FLOAT32_SERVICES: tuple[ServiceName, ...] = ("scorer", "classifiers")
"""The scorer's thresholds hold for float32, and a user's classifier is tested as it was trained."""
GPU_SHARE = 0.2
"""Ray hides every GPU from a replica that reserves none; with a fifth each, five services share one GPU."""


QUEUE_FACTORS: Mapping[ServiceName, int] = {"classifiers": 8}
"""A run asks each classifier of a zoo in a call of its own; calls that wait together share their loading."""


class ServiceOptions(BaseModel, frozen=True, extra="forbid"):
    """One service's own settings; a value that is null is the common one."""

    device: Device | None = None
    """Device of the service's models."""
    dtype: Precision | None = None
    """Precision of the service's models."""
    num_gpus: float | None = Field(default=None, ge=0.0)
    """GPUs that Ray reserves for one replica of the service."""
    min_replicas: int | None = Field(default=None, ge=0, le=1000)
    """Smallest number of the service's replicas."""
    max_replicas: int | None = Field(default=None, ge=1, le=1000)
    """Largest number of the service's replicas."""
    max_queue: int | None = Field(default=None, ge=1, le=10_000)
    """Largest number of requests that a replica of the service holds."""
    node_group: str | None = Field(default=None, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    """Group of Ray nodes (`ray.io/node-group`) that run the service's replicas, such as a worker group of
    Kubernetes; null for any node."""
    start_s: float | None = Field(default=None, gt=0.0)
    """Seconds in which a replica of the service starts, as `counterpose-services check --load` measures them;
    required with `min_replicas` 0, because the first call waits that long."""
    tf32: bool | None = None
    """Whether float32 may be computed as TF32 on a GPU, with 10 of its 23 bits; null for PyTorch's own
    default, convolutions only. Scorer and classifiers never do. Speed not measured."""
    compile: bool | None = None
    """Whether the editor compiles its network for calls without attention control or gradient, such as
    text-to-image; a replica starts about a minute later. Other services refuse it."""


@dataclass(frozen=True)
class ResolvedOptions:
    """The settings that are in force for one service, its own before the common ones."""

    device: str
    dtype: Precision
    num_gpus: float
    min_replicas: int
    max_replicas: int
    max_queue: int
    start_s: float | None
    tf32: bool | None = None
    compile: bool = False
    node_group: str | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the models lie on a GPU."""
        return self.device != "cpu"


def default_dtype(service: ServiceName, device: str, common: Precision | None) -> Precision:
    """Return the precision of a service that has none of its own.

    float16 on a GPU, as the published weights of LLaMA and Stable Diffusion are used; float32 on a CPU, where
    half precision is slow.
    """
    if service in FLOAT32_SERVICES:
        return "float32"
    return common or ("float32" if device == "cpu" else "float16")
