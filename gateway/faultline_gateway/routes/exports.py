"""``/v1/<kind>s/{id}/export``: a run's pictures as a set that other tools read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse

from faultline_gateway.exports import Card, ExportLayout, Record, write_export
from faultline_gateway.exports.archive import MEDIA_TYPE, archived
from faultline_gateway.parts import GatewayParts

Layout = Annotated[ExportLayout, Query(description="How the pictures lie in their folder.")]
Dropped = Annotated[bool, Query(description="Also pictures that a filter dropped.")]

EXPORT_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {MEDIA_TYPE: {}}}}


def export_response(
    run_id: str, records: Iterable[Record], card: Card, layout: ExportLayout, parts: GatewayParts
) -> StreamingResponse:
    """Write the export to disk and answer it as a tar, whose last member is the dataset card."""

    def write(folder: Path) -> None:
        write_export(records, folder, layout=layout, store=parts.store, card=card)

    name = f"faultline-{run_id}-{layout}.tar"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(archived(write), media_type=MEDIA_TYPE, headers=headers)
