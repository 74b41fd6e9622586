"""Models whose licence does not let everybody use them: refused unless the settings allow them by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from counterpose_core.errors import PolicyRefused
from counterpose_core.suite import PublishedModel, load_suite
from counterpose_services.settings import ServiceName, ServiceSettings

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
    part = getattr(load_suite(settings.suite), service)
    if part is None:
        return []
    found = []
    for name, published in part.published.items():
        restricted = restriction(published)
        allowed = {name, published.repository, published.licence} & set(settings.allowed_licences)
        if restricted is not None and not allowed:
            found.append(
                f"the {service}'s model {name!r} {restricted}; if it allows your use, set {VARIABLE}={name}"
            )
    return found
