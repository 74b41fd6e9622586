"""The slot of a prompt: found by exact spelling, and refused if misspelt."""

from __future__ import annotations

import pytest

from faultline_core.errors import InvalidRequest
from faultline_core.text.class_slot import count_slots, refuse_slot, require_slot

LOOKALIKES = [
    "a < class >", "a <Class>", "a <CLASS> in snow", "a ＜class＞", "a <cl\u200bass>", "a <\u00a0class\t>",
    "a ⟨class⟩", "a ‹class›", "a 《ｃｌａｓｓ》", "a <class> and a <Class>", "a <\u00adclass>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a photo of a <class>", 1),
        ("<class><class>", 2),
        ("a boat", 0),
        ("", 0),
        ("a <classy> boat", 0),
        ("first class > second, 3 < 4", 0),
        ("<<class>>", 1),
    ],
)
def test_slots_are_counted_by_exact_spelling(text: str, slots: int) -> None:
    assert count_slots(text) == slots


@pytest.mark.fault("B32")
@pytest.mark.parametrize("text", LOOKALIKES)
def test_a_misspelt_slot_is_refused_everywhere(text: str) -> None:
    for judge in (count_slots, require_slot, refuse_slot):
        with pytest.raises(InvalidRequest, match="misspells the class slot"):
            judge(text)


@pytest.mark.fault("B33")
@pytest.mark.parametrize(("text", "told"), [("a boat", "no slots"), ("a <class> on a <class>", "2 slots")])
def test_a_token_needs_exactly_one_slot(text: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        require_slot(text)


@pytest.mark.fault("B33")
def test_a_slot_needs_a_token() -> None:
    refuse_slot("a boat")
    with pytest.raises(InvalidRequest, match="no token to fill it"):
        refuse_slot("a <class>")
