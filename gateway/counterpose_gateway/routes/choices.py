"""What the reader of a run chooses in its address: thresholds, percentiles, images to export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Query

from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.errors import InvalidRequest
from counterpose_core.field_descriptions import field_description
from counterpose_core.kinds import KINDS
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.types import Cosine
from counterpose_gateway.methods import METHODS
from counterpose_gateway.runs.method import AnyMethod

Percentile = Annotated[
    float | None,
    Query(
        ge=0.0,
        le=100.0,
        allow_inf_nan=False,
        description="Percentile of each class's real images from which an image of a shift benchmark shows "
        f"its object; {OBJECT_PERCENTILE:g} by default.",
    ),
]
Found = Annotated[
    bool, Query(description="Of a shift benchmark, also images that were found and not generated.")
]


def _said(name: str) -> str:
    return f"{field_description(Thresholds, name)} By default, the stress test's own."


async def _chosen(
    direction: Annotated[Cosine | None, Query(description=_said("direction"))] = None,
    image_image: Annotated[Cosine | None, Query(description=_said("image_image"))] = None,
    image_text: Annotated[Cosine | None, Query(description=_said("image_text"))] = None,
    closer: Annotated[bool | None, Query(description=_said("closer"))] = None,
    class_similarity: Annotated[Cosine | None, Query(description=_said("class_similarity"))] = None,
    word_similarity: Annotated[Cosine | None, Query(description=_said("word_similarity"))] = None,
    object_percentile: Percentile = None,
) -> dict[str, Any]:
    """Return what was chosen, by its name."""
    return {name: value for name, value in locals().items() if value is not None}


Chosen = Annotated[dict[str, Any], Depends(_chosen)]


def require_choices(method: AnyMethod, run_id: str, chosen: Mapping[str, Any]) -> Any:
    """Return the reader's choice for the summary of a run.

    Raises:
        InvalidRequest: runs of this kind leave no such choice.
    """
    for name in chosen:
        if name not in method.choices:
            kinds = " or ".join(kind for kind, other in METHODS.items() if name in other.choices)
            raise InvalidRequest(
                f"the parameter {name!r} is of runs of the kind {kinds}, and run {run_id!r} is a "
                f"{KINDS[method.kind].title.lower()}; leave it out",
                pointer=f"/{name}",
            )
    return method.view(chosen)
