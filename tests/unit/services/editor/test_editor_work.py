"""How much work a call to the editor is, known before it runs."""

from __future__ import annotations

import pytest

from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    GenerateItem,
    GenerateRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import LearnTokenItem, LearnTokensRequest, TextualInversionPreset
from counterpose_services.editor.work import planned_evaluations

IMAGE = "0" * 64
EDIT = EditItem(image=IMAGE, caption="a boat", edited_caption="a tram")
DIRECT = PromptToPromptPreset(steps=5, self_replace=(0.2, 0.5, 0.8))
VIRTUAL = PromptToPromptPreset(
    inversion="virtual", solver="consistent", steps=5, self_replace=(0.2, 0.5, 0.8)
)
NULL_TEXT = PromptToPromptPreset(
    inversion="null-text", steps=10, inner_steps=10, self_replace=(0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
)


@pytest.mark.parametrize(
    ("preset", "forward", "backward"),
    # What the miniature editor counted for one edit of an image that was not inverted before.
    [(DIRECT, 33, 0), (VIRTUAL, 34, 0), (NULL_TEXT, 190, 100)],
    ids=["direct", "virtual", "null-text"],
)
def test_the_work_of_an_edit_is_about_what_the_editor_counts(
    preset: PromptToPromptPreset, forward: int, backward: int
) -> None:
    planned = planned_evaluations(EditRequest(items=[EDIT, EDIT], preset=preset))
    assert planned == pytest.approx(2 * (forward + 2 * backward), rel=0.15)


def test_a_part_of_the_sweep_is_less_work() -> None:
    whole, one = (
        planned_evaluations(EditRequest(items=[EDIT], preset=DIRECT, strength=values))
        for values in (None, (0.8,))
    )
    assert one < 0.7 * whole


def test_each_kind_of_call_has_its_work() -> None:
    image = ReconstructItem(image=IMAGE, caption="a boat")
    assert planned_evaluations(ReconstructRequest(items=[image] * 3, preset=DIRECT)) == 15
    drawn = [GenerateItem(prompt="a boat", seed=seed) for seed in range(4)]
    assert planned_evaluations(GenerateRequest(items=drawn, steps=8, guidance=2.0)) == 64
    assert planned_evaluations(GenerateRequest(items=drawn, steps=8, guidance=1.0)) == 32
    learned = LearnTokensRequest(
        items=[LearnTokenItem(class_name="boat", images=[IMAGE])],
        preset=TextualInversionPreset(batch=4), link_steps=25, seed=1,
    )  # fmt: skip
    assert planned_evaluations(learned) == 300
