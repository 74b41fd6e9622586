"""Pictures that are searched for: the nearest neighbours of a prompt in a dataset, by CLIP."""

from __future__ import annotations

from faultline_core.contract.shift_benchmarks import (
    PictureSource,
    ShiftBenchmarkConfig,
    ShiftBenchmarkCreate,
)
from faultline_core.errors import InvalidRequest
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import Store


def check_found(create: ShiftBenchmarkCreate) -> None:
    """Refuse a search that cannot be made.

    Raises:
        InvalidRequest: nothing is searched here yet.
    """
    if "retrieval" in create.sources:
        raise InvalidRequest("no pictures are retrieved here yet", pointer="/sources")


async def found_pictures(
    config: ShiftBenchmarkConfig,
    source: PictureSource,
    shift: str,
    class_name: str,
    count: int,
    services: Services,
    store: Store,
) -> list[BlobRef]:
    """Return the ``count`` best pictures of a class under a shift, fewer where there are no more.

    Raises:
        InvalidRequest: nothing is searched here yet.
    """
    raise InvalidRequest("no pictures are retrieved here yet")
