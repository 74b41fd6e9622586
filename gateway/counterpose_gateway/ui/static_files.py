"""``/ui/static``: script and styles of the pages, from this origin alone."""

from __future__ import annotations

from fastapi import APIRouter, Response

from counterpose_core.errors import NotFound
from counterpose_gateway.ui.page_route import PageRoute
from counterpose_gateway.ui.static_content import static_content

router = APIRouter(prefix="/ui/static", route_class=PageRoute)

# With its digest in the address a file never changes.
_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/{name}")
def get_static(name: str) -> Response:
    """Return a file of the pages."""
    if name not in static_content():
        raise NotFound(f"the pages have no file {name[:80]!r}")
    data, media_type = static_content()[name]
    return Response(data, media_type=media_type, headers={"cache-control": _FOR_EVER})
