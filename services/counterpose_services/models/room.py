"""Whether a device can hold the weights of its services; asked before any is loaded.

The weights alone are compared, which is certain; `counterpose-services check` adds an allowance for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.errors import ResourceExhausted
from counterpose_core.suite import load_suite
from counterpose_services.models.inventory import models_of
from counterpose_services.models.memory import device_bytes
from counterpose_services.settings import ServiceName, ServiceSettings, own_variable

Sizes = Mapping[ServiceName, int]


def require_room(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    """Raise an error if the weights of the services on a device are larger than its memory.

    Raises:
        ResourceExhausted: they are; the message says what would fit.
    """
    for device in dict.fromkeys(settings.of(service).device for service in services):
        users = [service for service in services if settings.of(service).device == device]
        memory, sizes = sum(device_bytes(device)), weights_of(settings, users)
        if sum(sizes.values()) > memory:
            raise ResourceExhausted(
                f"the weights of {', '.join(users)} have {_gib(sum(sizes.values()))} GiB, and {device!r} has "
                f"{_gib(memory)}; {what_fits(settings, sizes, memory)}"
            )


def weights_of(settings: ServiceSettings, services: Sequence[ServiceName]) -> Sizes:
    """Return the bytes of each service's weights, in its precision; unknown ones count as none."""
    suite = load_suite(settings.suite)
    return {
        service: sum(model.weights_bytes or 0 for model in models_of(service, suite, settings))
        for service in services
    }


def what_fits(settings: ServiceSettings, sizes: Sizes, memory: int) -> str:
    """Say in a part of a sentence what would fit: half precision, else the smallest services."""
    common: dict[str, object] = {
        name: getattr(settings, name).model_copy(update={"dtype": None}) for name in sizes
    }
    half = settings.model_copy(update={**common, "dtype": "float16"})
    total = sum(weights_of(half, list(sizes)).values())
    if total <= memory:
        return f"in float16 they have {_gib(total)}: set COUNTERPOSE_SERVICES_DTYPE=float16"
    kept, left = list[ServiceName](), memory
    for service in sorted(sizes, key=lambda one: sizes[one]):
        if sizes[service] <= left:
            kept.append(service)
            left -= sizes[service]
    others = [service for service in sizes if service not in kept]
    told = f"{', '.join(kept)} would fit" if kept else "none of them would fit"
    return f"{told}: put the {others[0]} on another device with {own_variable(others[0], 'device')}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"
