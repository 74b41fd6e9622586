"""What a worker does at one moment, as it tells the ledger for whoever watches."""

from __future__ import annotations

from pydantic import BaseModel, Field


class WorkerReading(BaseModel):
    """One worker's reading."""

    worker: str = Field(description="Host and process of the worker.")
    groups: int = Field(default=0, description="Item groups that it would process at once.")
    busy: int = Field(default=0, description="Item groups that it processes.")
    calls: dict[str, int] = Field(default={}, description="Calls under way, by service.")
    occupancy: float | None = Field(
        default=None, description="The editor's occupancy as it said last, or null if it did not say."
    )
