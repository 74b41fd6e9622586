"""The page about a server that plants faults says which share of its answers has one, not of its plan."""

from __future__ import annotations

import json

from evaluation.evidence.served_editor import SERVED, finding


def test_the_share_of_faulty_answers_is_counted() -> None:
    made = json.loads(SERVED.read_bytes())
    made["faulty"]["outcomes"]["answers by group"] = {
        "obeys": 6,
        "refuses": 1,
        "late": 1,
        "shift": 1,
        "leak": 1,
    }
    assert finding(made).startswith(
        "Where 0.200 (0.025 to 0.556) (n = 10) of a server's answers are faulty, "
    )
