"""The new addresses of what had one under the name of its method; to be deleted when 0.1.0 is released."""

from __future__ import annotations

import re

from counterpose_core.kinds import KINDS

_LISTS = {f"GET /v1/{kind.path}": f"/v1/runs?kind={kind.name}" for kind in KINDS.values()}
_RUN = re.compile(rf"^/v1/({'|'.join(kind.path for kind in KINDS.values())})/(?!(estimate|freeze)$)")
_VERB = re.compile(r":(cancel|estimate|freeze|generate|prove|register|resume|wait)$")


def moved(method: str, path: str) -> str | None:
    """Return the address that has taken the place of an old one; None for others."""
    new = _LISTS.get(f"{method} {path}") or _VERB.sub(r"/\1", _RUN.sub("/v1/runs/", path))
    return None if new == path else new
