"""The rounds of the sweep: every value once, and the same choice as over all values together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from counterpose_core.contract import editor
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.injection_steps import leading_steps
from counterpose_core.stress_test.filters import choose
from counterpose_core.stress_test.sweep import rounds

SWEEP = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
STEPS = 50
FRACTIONS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.5, 0.8, 0.81, 1.0]), min_size=1, max_size=6)


@dataclass(frozen=True)
class Scored:
    """Scores that pass wherever the direction does."""

    direction: float
    image_image: float = 1.0
    text_original: float = 1.0
    text_edited: float = 1.0
    text_edited_source: float = 0.0
    words_added: float | None = None
    words_removed: float | None = None


HALF = GateThresholds(direction=0.5, image_image=0.0, image_text=0.0)
"""Half of all directions pass."""


def ends_in(steps: int) -> Callable[[float], float]:
    return PromptToPromptPreset(steps=steps).level


def test_the_papers_rule_compares_all_values_in_one_round() -> None:
    assert rounds(SWEEP, ends_in(STEPS), "paper") == [SWEEP]


def test_the_released_rule_tries_the_largest_first_one_at_a_time() -> None:
    assert rounds((0.6, 0.4, 0.8), ends_in(STEPS), "released") == [(0.8,), (0.6,), (0.4,)]


def test_values_that_end_at_the_same_step_share_a_round() -> None:
    assert rounds((0.4, 0.5, 0.8, 0.4), ends_in(4), "released") == [(0.8,), (0.5,), (0.4, 0.4)]
    assert rounds((0.4, 0.45, 0.8), ends_in(5), "released") == [(0.8,), (0.4, 0.45)]


@pytest.mark.paper("LANCE-C-selection")
@settings(max_examples=30, deadline=None)
@given(FRACTIONS, st.integers(1, 12), st.data())
def test_the_choice_over_tried_values_equals_the_choice_over_all(
    sweep: list[float], steps: int, data: st.DataObject
) -> None:
    image = {leading_steps(value, steps): data.draw(st.floats(0, 1)) for value in sweep}
    scores = [Scored(image[leading_steps(value, steps)]) for value in sweep]
    whole = list(zip(sweep, scores, strict=True))
    expected = choose(whole, HALF, "released")
    tried: list[tuple[float, Scored]] = []
    for values in rounds(sweep, ends_in(steps), "released"):
        assert not {value for value, _ in tried} & set(values)
        tried = [each for each in whole if each in tried or each[0] in values]
        if choose(tried, HALF, "released").failed is None:
            break
    choice = choose(tried, HALF, "released")
    assert (tried[choice.index], choice.failed) == (whole[expected.index], expected.failed)


def evaluations(fails: tuple[bool, ...]) -> int:
    """Two a step from the fork on: all steps at first, then those after each next value's injection."""
    ends = [leading_steps(values[0], STEPS) for values in rounds(SWEEP, ends_in(STEPS), "released")]
    taken = 2 * STEPS
    for failed, end in zip(fails, ends[1:], strict=True):
        if not failed:
            return taken
        taken += 2 * (STEPS - end)
    return taken


def test_a_gate_with_50_percent_pass_rate_takes_128_of_300_evaluations_per_edit() -> None:
    """100 + sum over k = 1..5 of 2^-k * 2 * (50 - end of the k-th next value) = 127.5."""
    patterns = list(itertools.product([False, True], repeat=5))
    assert sum(map(evaluations, patterns)) / len(patterns) == 127.5
    assert max(map(evaluations, patterns)) == 300


@pytest.mark.parametrize(("fraction", "steps"), [(0.29, 100), (0.57, 100), (0.8, 5)])
def test_leading_steps_are_exact_for_decimal_fractions(fraction: float, steps: int) -> None:
    assert leading_steps(fraction, steps) == round(fraction * steps)


@pytest.mark.parametrize("values", [[], [0.5], [0.4, 0.41], [1.5], "0.4"])
def test_values_outside_the_preset_sweep_are_refused(values: object) -> None:
    item = {"image": "0" * 64, "caption": "a bus", "edited_caption": "a tram"}
    body = {"items": [item], "preset": {"self_replace": [0.4, 0.8]}, "strength": values}
    with pytest.raises(ValidationError) as caught:
        editor.EditRequest.model_validate(body)
    assert caught.value.errors()[0]["loc"][0] == "strength"


def test_an_edit_requests_the_whole_sweep_by_default() -> None:
    item = editor.EditItem(image="0" * 64, caption="a bus", edited_caption="a tram")
    preset = PromptToPromptPreset(self_replace=(0.4, 0.8))
    assert editor.EditRequest(items=[item], preset=preset).values == (0.4, 0.8)
    assert editor.EditRequest(items=[item], preset=preset, strength=(0.8,)).values == (0.8,)
