"""The thresholds in an address by which a reader has a stress test judged again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.types import Cosine


def _said(name: str) -> str:
    return f"{Thresholds.model_fields[name].description} By default, the run's own."


async def judged_by(
    direction: Annotated[Cosine | None, Query(description=_said("direction"))] = None,
    image_image: Annotated[Cosine | None, Query(description=_said("image_image"))] = None,
    image_text: Annotated[Cosine | None, Query(description=_said("image_text"))] = None,
    closer: Annotated[bool | None, Query(description=_said("closer"))] = None,
    class_similarity: Annotated[Cosine | None, Query(description=_said("class_similarity"))] = None,
    word_similarity: Annotated[Cosine | None, Query(description=_said("word_similarity"))] = None,
) -> Thresholds | None:
    """Return the reader's thresholds; None for the run's own."""
    given = Thresholds(
        direction=direction,
        image_image=image_image,
        image_text=image_text,
        closer=closer,
        class_similarity=class_similarity,
        word_similarity=word_similarity,
    )
    return given if given.given() else None
