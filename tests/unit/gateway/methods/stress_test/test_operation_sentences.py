"""What is said of a loss that is shown to be one, and not to be worth a finding."""

from __future__ import annotations

import pytest

from counterpose_core.contract.transforms import OperationLevel
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.transforms.sentences import real_loss


def level(
    number: int, loss: tuple[float, float, float], *, real: bool = True, shown: bool = False
) -> OperationLevel:
    estimate, low, high = loss
    whole = Estimate(estimate=estimate, low=low, high=high, n=480)
    return OperationLevel(
        level=number, words=f"is as dark as level {number}", accuracy=whole, loss=whole, lost=12, gained=2,
        p=1.0, shown=shown, real=real,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "least", "said"),
    [
        ((0.02, 0.01, 0.03), 0.05, "2 points (1 to 3) is real, and less than the 5 points that"),
        ((0.04, 0.02, 0.07), 0.05, "4 points (2 to 7) is real, and not shown to be more than the 5 points"),
        ((0.01, 0.004, 0.02), 0.025, "1 point (0 to 2) is real, and less than the 2.5 points that"),
        (
            (0.02, 0.01, 0.03),
            0.01,
            "2 points (1 to 3) is real, and not shown to be more than the 1 point that",
        ),
    ],
)
def test_a_real_loss_is_told_beside_the_least_that_is_a_break(
    loss: tuple[float, float, float], least: float, said: str
) -> None:
    hardest = level(5, loss)
    told = real_loss([level(1, loss, real=False), hardest], hardest, least)
    assert told.startswith(f" A loss of {said}")
    assert told.endswith("calls a break." if "less than" in said else "calls a break, all tests counted.")


def test_the_level_is_named_where_the_sentence_before_is_of_another() -> None:
    easier = level(3, (0.03, 0.0, 0.08), real=False)
    told = real_loss([easier, level(5, (0.03, 0.01, 0.05))], easier, 0.05)
    assert "3 points (1 to 5) where it is as dark as level 5 is real" in told


def test_nothing_is_added_to_a_finding_or_where_no_loss_is_shown() -> None:
    shown, open_ = level(5, (0.3, 0.2, 0.4), shown=True), level(5, (0.03, 0.0, 0.06), real=False)
    assert real_loss([shown], shown, 0.05) == ""
    assert real_loss([open_], open_, 0.05) == ""
