"""The pages behind ``/ui``: the runs in a browser, each page with an address, complete without script."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_gateway.ui import finding_page, image_files, item_pages, login, run_list, run_page
from counterpose_gateway.ui.environment import unknown_page

__all__ = ["PAGES"]

PAGES = APIRouter()
"""The routes of all pages."""

for _part in (image_files, login, run_list, run_page, finding_page, item_pages):
    PAGES.include_router(_part.router)
PAGES.include_router(image_files.static)
# Last, because it takes every path that no page has.
PAGES.include_router(unknown_page)
