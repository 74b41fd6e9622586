"""Whether this machine has the devices and precisions that the settings ask for; asked before models load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterpose_core.errors import BackendUnavailable
from counterpose_services.settings import ServiceName, ServiceSettings, own_variable

if TYPE_CHECKING:
    import torch


def require_devices(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    """Raise an error if a service's device or precision is not to be had, or the GPUs do not go round.

    Ray would wait in silence for a GPU that nobody has.

    Raises:
        BackendUnavailable: a device is absent, lacks the precision, or has too few GPUs for all shares.
    """
    on_gpu = [service for service in services if settings.of(service).on_gpu]
    for service in on_gpu:
        require_device(settings, service)
    if not on_gpu:
        return
    import torch

    there = torch.cuda.device_count()
    wanted = sum(settings.of(one).num_gpus * max(settings.of(one).min_replicas, 1) for one in on_gpu)
    # Shares such as a fifth are not exact in binary.
    if wanted > there + 1e-6:
        raise BackendUnavailable(
            f"{', '.join(on_gpu)} reserve {wanted:g} GPUs, and there {_are(there)}; lower "
            f"{own_variable(on_gpu[0], 'num_gpus')} (a fraction shares a GPU), or put a service on the CPU "
            f"with {own_variable(on_gpu[-1], 'device')}=cpu"
        )


def require_device(settings: ServiceSettings, service: ServiceName) -> None:
    """Raise an error if the service's device is absent or lacks its precision.

    Raises:
        BackendUnavailable: either is the case; the message names both, and the variable to set.
    """
    own = settings.of(service)
    if not own.on_gpu:
        return
    import torch

    there = torch.cuda.device_count()
    # Within a replica, Ray shows only the GPUs that it reserved, numbered from 0.
    index = int(own.device.partition(":")[2] or 0)
    if index >= there:
        why = _build(torch.version.cuda)
        raise BackendUnavailable(
            f"the {service} is to run on {own.device!r}, and there {_are(there)} here{why}; set "
            f"{own_variable(service, 'device')} to {'cuda' if there else 'cpu'}"
        )
    with torch.cuda.device(index):
        if own.dtype == "bfloat16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            raise BackendUnavailable(
                f"{torch.cuda.get_device_name(index)} has no bfloat16, which the {service} is to compute in; "
                f"set {own_variable(service, 'dtype')} to float16"
            )


def device_name(device: torch.device) -> str:
    """Return the name of a card, or of the kind of device."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def choose_float32_precision(settings: ServiceSettings, service: ServiceName) -> None:
    """Say how this process computes float32 on a GPU; a replica is a process of its own.

    PyTorch's own default rounds the inputs of convolutions to TF32. A classifier under test would not compute
    as it was trained then, and the scorer's thresholds would not hold.
    """
    own = settings.of(service)
    if not own.on_gpu or own.tf32 is None:
        return
    import torch

    torch.backends.cuda.matmul.allow_tf32 = own.tf32
    torch.backends.cudnn.allow_tf32 = own.tf32


def _are(gpus: int) -> str:
    return {0: "is no GPU", 1: "is 1 GPU"}.get(gpus, f"are {gpus} GPUs")


def _build(cuda: str | None) -> str:
    """Name the most common cause, a torch that was built without CUDA."""
    return ", because this torch is built for CPUs" if cuda is None else ""
