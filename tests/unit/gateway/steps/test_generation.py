"""The images that an attempt generates."""

from __future__ import annotations

from typing import Any, cast

from counterpose_core.contract.editor import GenerationPreset
from counterpose_gateway.steps.generation import generate_images


async def test_nothing_is_asked_of_the_editor_where_nothing_is_to_be_drawn() -> None:
    # No services: any call would raise.
    images, drops = await generate_images(cast("Any", None), GenerationPreset(), [])
    assert (images, drops.ended) == ([], [])
