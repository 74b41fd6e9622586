"""Sums of accounts, and what several runs with the same budget may take together."""

from __future__ import annotations

import pytest

from counterpose_core.contract.spending import Spending, SpendingLimits, Spent, added

ONE = Spent(calls=1, images=1)


def test_accounts_are_added_service_by_service() -> None:
    first = Spending(services={"editor": ONE, "captioner": Spent(calls=2)}, usd=0.5, unpriced=["a"])
    second = Spending(services={"editor": ONE.times(3)}, unanswered=ONE, usd=0.25, stopped="stopped")
    found = added([None, first, second])
    assert found == Spending(
        services={"captioner": Spent(calls=2), "editor": ONE.times(4)},
        unanswered=ONE, usd=0.75, unpriced=["a"], stopped="stopped",
    )  # fmt: skip


def test_money_is_known_where_every_account_knows_it() -> None:
    found = added([Spending(services={}, usd=0.5), Spending(services={})])
    assert found is not None
    assert found.usd is None
    assert added([None, None]) is None


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            {"usd": 2.5, "images": 40},
            "$2.50 and 40 images for each of 3 runs: at most $7.50 and 120 images together",
        ),
        ({"images": 1}, "1 image for each of 3 runs: at most 3 images together"),
        ({}, ""),
    ],
)
def test_a_budget_of_each_run_is_told_of_all(limits: dict[str, float], says: str) -> None:
    assert SpendingLimits.model_validate(limits).of_runs(3) == says
