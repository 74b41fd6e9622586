"""The images that an attempt generates."""

from __future__ import annotations

from typing import Any, cast

import pytest

from counterpose_core.contract.base import ModelIdentity, Outcome, Problem
from counterpose_core.contract.editor import (
    GeneratedImage,
    GenerateRequest,
    GenerateResponse,
    GenerationPreset,
)
from counterpose_core.errors import BackendUnavailable, CounterposeError, PolicyRefused
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.outcomes import Filtered
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.steps.generation import Asked, generate_images
from fakes.ports import FakeEditor, fake_services
from fakes.world import FakeWorld


async def test_nothing_is_asked_of_the_editor_where_nothing_is_to_be_drawn() -> None:
    # No services: any call would raise.
    images, drops = await generate_images(cast("Any", None), GenerationPreset(), [])
    assert (images, drops.ended) == ([], [])


class Refusing(FakeEditor):
    """An editor each of whose images ends with an error."""

    error: CounterposeError

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Refuse all."""
        outcomes = [Outcome[GeneratedImage](problem=Problem.of(self.error)) for _ in request.items]
        return GenerateResponse(outcomes=outcomes, model=ModelIdentity(id="editor", revision="1"))


async def proceed() -> None:
    """The run goes on."""


@pytest.mark.parametrize("error", [PolicyRefused("'x' refuses it"), BackendUnavailable("'x' is away")])
async def test_what_a_server_s_policy_refuses_is_filtered_and_what_fails_is_not(
    error: CounterposeError,
) -> None:
    world = FakeWorld()
    editor = Refusing(world)
    editor.error = error
    item = cast("LeasedItem", object())
    calls = Calls(fake_services(world, editor=editor), world.store, proceed)
    images, drops = await generate_images(calls, GenerationPreset(), [Asked(item, "a boat", 1)])
    assert images == []
    [(dropped, why)] = drops.ended
    assert dropped is item
    if isinstance(error, PolicyRefused):
        assert why == Filtered(reason="policy", detail="'x' refuses it")
    else:
        assert isinstance(why, BackendUnavailable)
