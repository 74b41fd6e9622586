"""What is asked before any weights are loaded: may the models be used, and can the devices hold them.

Models whose licence does not let everybody use them are refused unless the settings allow them by name. Of
memory, the weights alone are compared, which is certain; `counterpose-services check` adds an allowance for
the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from counterpose_core.errors import PolicyRefused, ResourceExhausted
from counterpose_core.suite import PublishedModel, load_suite
from counterpose_services.models.inventory import models_of
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
    suite = load_suite(settings.suite, settings)
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
    fitting = f"{', '.join(kept)} would fit" if kept else "none of them would fit"
    return f"{fitting}: put the {others[0]} on another device with {own_variable(others[0], 'device')}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


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
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024


VARIABLE = "COUNTERPOSE_SERVICES_ALLOWED_LICENCES"
# "cc-by-nc-4.0", "llama (non-commercial)", "apple-amlr (research only)"
_NON_COMMERCIAL = re.compile(r"non-?commercial|\bnc\b|research[ -]only", re.IGNORECASE)


def restriction(published: PublishedModel) -> str | None:
    """Return what a licence restricts, in the middle of a sentence; None if it restricts nothing."""
    licence = published.licence or ""
    if _NON_COMMERCIAL.search(licence):
        return f"has the licence {licence!r}, which allows no commercial use"
    if published.gated:
        return f"is given only to those who accept its licence{f' {licence!r}' if licence else ''} on the hub"
    return None


def require_licences(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    """Refuse models of the suite with a restricted licence that the settings do not name.

    Raises:
        PolicyRefused: there is one; the message names model, licence and variable.
    """
    for service in services:
        if refusals := licence_refusals(settings, service):
            raise PolicyRefused(refusals[0])


def licence_refusals(settings: ServiceSettings, service: ServiceName) -> list[str]:
    """Return a sentence for each model of ``service`` whose restricted licence the settings do not allow."""
    suite = load_suite(settings.suite, settings)
    if service not in suite.services:
        return []
    refusals = []
    for name, published in suite.published(service).items():
        restricted = restriction(published)
        allowed = {name, published.repository, published.licence} & set(settings.allowed_licences)
        if restricted is not None and not allowed:
            refusals.append(
                f"the {service}'s model {name!r} {restricted}; if it allows your use, set {VARIABLE}={name}"
            )
    return refusals
