"""Why images were left out: every reason has plain words, wherever a user reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import counterpose_gateway
from counterpose_core.stress_test.filters import GateReason, TextReason
from counterpose_core.types import ItemState
from counterpose_gateway.methods.stress_test.observations.observations import REPEATED_DRAW
from counterpose_gateway.methods.stress_test.screen.interventions import NOT_APPLICABLE
from counterpose_gateway.methods.stress_test.screen.text_filters import DUPLICATE
from counterpose_gateway.methods.stress_test.summary.estimates import FILTERS, INTERVENTION_FILTERS
from counterpose_gateway.methods.stress_test.summary.headline import verdict_text
from counterpose_gateway.reports.reasons import LEFT_OUT, why_left_out
from counterpose_gateway.steps.generation import MALFORMED, POLICY
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.steps.safety import SAFETY

SOURCE = Path(counterpose_gateway.__file__).parent
REASON_AT = {"filtered": 1, "_kept": 2}
"""Name of what leaves something out → the place of the reason among its arguments."""
NAMED = {NOT_APPLICABLE, DUPLICATE, MALFORMED, POLICY, OBJECTIONABLE, SAFETY, REPEATED_DRAW}


def written() -> Iterator[str]:
    """The reasons that stand as text where an item is filtered or a pair is left out."""
    folders = (SOURCE / "methods/stress_test", SOURCE / "runs", SOURCE / "steps")
    for file in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and len(node.args) > 1:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in REASON_AT and len(node.args) > REASON_AT[name]:
                    reason = node.args[REASON_AT[name]]
                    if isinstance(reason, ast.Constant):
                        yield str(reason.value)


def test_every_reason_has_words() -> None:
    found = set(written())
    assert {"no-edit", "label-in-edit", "other-wording", "drawn"} <= found
    reasons = {*get_args(TextReason), *get_args(GateReason), *FILTERS, *INTERVENTION_FILTERS, *NAMED, *found}
    states = {*get_args(ItemState)} - {"done", "filtered"}
    assert LEFT_OUT.keys() == reasons | states | {"unanswered"}


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_a_verdict_says_a_reason_in_words(reason: str) -> None:
    words = why_left_out(reason)
    assert len(words.split()) > 1
    told = verdict_text([], [], [], {"planned": 3, "done": 0}, dropped={reason: 3})
    assert f"(3: {words})" in told
