"""Merged calls keyed by preset: equal ones share a call, others neither wait nor fail together."""

from __future__ import annotations

import asyncio

import pytest

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.editor import EditedImage, EditItem, EditResponse
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import ResourceExhausted
from counterpose_core.types import Cost
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import MergedCalls

QUICK, LONG = PromptToPromptPreset(steps=3), PromptToPromptPreset(steps=50, inversion="null-text")
ITEM = EditItem(image="0" * 64, caption="a red bus", edited_caption="a blue bus")


async def test_calls_with_different_presets_are_not_merged() -> None:
    made: list[tuple[int, int]] = []

    def edit(preset: PromptToPromptPreset, items: list[EditItem]) -> EditResponse:
        made.append((preset.steps, len(items)))
        if preset == LONG:
            raise ResourceExhausted("too many steps")
        outcomes: list[Outcome[EditedImage]] = [Outcome(value=EditedImage(variants=[])) for _ in items]
        return EditResponse(outcomes=outcomes, model=ModelIdentity(id="m", revision="r"), cost=Cost())

    merged: MergedCalls[PromptToPromptPreset, EditItem, EditResponse] = MergedCalls(
        edit, EngineThread(hung_after_s=60.0), max_wait=0.0
    )
    # Equal presets are one key, even as separate objects.
    same = QUICK.model_copy()
    first, failed, second = await asyncio.gather(
        merged(QUICK, [ITEM]), merged(LONG, [ITEM]), merged(same, [ITEM, ITEM]), return_exceptions=True
    )
    assert sorted(made) == [(3, 3), (50, 1)]
    assert isinstance(failed, ResourceExhausted)
    assert not isinstance(first, BaseException)
    assert not isinstance(second, BaseException)
    assert [len(part.outcomes) for part in (first, second)] == [1, 2]
    with pytest.raises(ResourceExhausted):
        await merged(LONG, [ITEM])
