"""The gateway's OpenAPI document, described once for all tests that read it: it takes a second."""

from __future__ import annotations

from functools import cache
from typing import Any

from counterpose_gateway.app import bare_app


@cache
def document(*, with_metrics: bool = True) -> dict[str, Any]:
    """Return what a gateway says of itself; not to be changed."""
    return bare_app(with_metrics=with_metrics).openapi()
