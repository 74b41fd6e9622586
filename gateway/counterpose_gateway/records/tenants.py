"""Tenants: who shares a gateway without seeing each other, each with objects and a quota of its own."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from counterpose_core.errors import InvalidRequest, QuotaExceeded

DEFAULT_TENANT = "default"
"""The tenant of keys of the settings, of callers without a key, and of what is older than tenants."""

_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")


def tenant_named(name: str) -> str:
    """Return the name of a tenant; there is a tenant for each key that names it.

    Raises:
        InvalidRequest: it is no name of one.
    """
    if _TENANT.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:60]!r} is no name of a tenant; use 1 to 48 lower-case letters, digits and hyphens, "
            "with no hyphen at either end"
        )
    return name


class Used(NamedTuple):
    """Images, and seconds of GPUs, or of processors where there are none."""

    images: int = 0
    gpu_seconds: float = 0.0


class Quota(NamedTuple):
    """The most of each; None for no bound."""

    images: int | None = None
    gpu_seconds: float | None = None


@dataclass(frozen=True)
class Allowance:
    """What a tenant may use in a month, and has used; ``used`` is counted only where there is a quota."""

    tenant: str
    most: Quota
    used: Used
    renews_at: dt.datetime

    @property
    def gpu_seconds_left(self) -> float:
        """Seconds that may still be used; infinite without a bound."""
        return math.inf if self.most.gpu_seconds is None else self.most.gpu_seconds - self.used.gpu_seconds

    def less(self, more: Used) -> Allowance:
        """Return what is left once so much more was used."""
        images, seconds = self.used.images + more.images, self.used.gpu_seconds + more.gpu_seconds
        return replace(self, used=Used(images, seconds))

    def refusal(self, wanted: int = 0) -> QuotaExceeded | None:
        """Say why the tenant may not use ``wanted`` images more, or nothing more; None if it may."""
        most, used = self.most, self.used
        renewed = f"it renews on {self.renews_at:%Y-%m-%d} UTC, or the operator raises it"
        whose = f"the tenant {self.tenant!r} has used"
        if most.images is not None and used.images + max(wanted, 1) > most.images:
            asked = f", and this run asks for up to {wanted:,} more" if wanted else ""
            return QuotaExceeded(
                f"{whose} {used.images:,} of {most.images:,} images this month{asked}; {renewed}"
            )
        if most.gpu_seconds is not None and used.gpu_seconds >= most.gpu_seconds:
            spent = f"{used.gpu_seconds:,.0f} of {most.gpu_seconds:,.0f}"
            return QuotaExceeded(f"{whose} {spent} GPU-seconds this month; {renewed}")
        return None
