"""The interval of a finding over several runs agrees with its state, whatever each run said."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.runs import Run
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.proof import Evidence, join
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import FreshPair
from counterpose_gateway.methods.stress_test.summary.joined_runs import JoinedFinding, RunPairs


def joined(losses: Sequence[float], told: FindingState = "suspected", family: int = 1) -> JoinedFinding:
    """A finding with pairs of fresh images in a child run."""
    answer = {"leaning": SimpleNamespace(right=True)}
    images = (SimpleNamespace(unit=str(n), place=(str(n), None), after=answer) for n in range(len(losses)))
    pairs = [
        SimpleNamespace(placebo=image, edit=image, loss=loss)
        for image, loss in zip(images, losses, strict=True)
    ]
    finding = SimpleNamespace(state=told, confirmed=None, classifier="leaning")
    proof = SimpleNamespace(finding=finding, family=family, parent="parent")
    run = RunPairs(cast(Run, SimpleNamespace(id="child")), len(pairs), {}, cast(list[FreshPair], pairs))
    found = JoinedFinding(cast(Proof, proof), [run])
    vars(found)["evidence"] = join([losses], family)
    return found


def interval(found: JoinedFinding) -> tuple[Estimate, float, float]:
    """The loss that is printed, and the ends of its interval."""
    loss = found._confirmed.loss
    assert loss.low is not None
    assert loss.high is not None
    return loss, loss.low, loss.high


def by_bets(losses: Sequence[float]) -> Estimate:
    """The loss as bets alone say it."""
    return Evidence(join([losses], 1).runs, 1).loss


def test_a_proof_excludes_0_even_where_bets_of_both_sides_would_not() -> None:
    losses = [0.5] * 9
    assert (by_bets(losses).low or 0.0) <= 0.0
    found = joined(losses)
    assert (found.state, interval(found)[1]) == ("breaks", 0.01)


def test_evidence_that_falls_short_leaves_0_in_the_interval() -> None:
    losses = [0.9] * 10
    assert (by_bets(losses).low or 0.0) > 0.0
    found = joined(losses, family=10_000)
    assert (found.state, interval(found)[1]) == ("cannot-tell", 0.0)


def test_what_holds_ends_below_the_loss_that_is_ruled_out() -> None:
    losses = next([0.0] * n for n in range(10, 200) if join([[0.0] * n], 1).absent)
    assert (by_bets(losses).high or 0.0) >= MARGIN
    found = joined(losses)
    assert found.state == "holds"
    assert interval(found)[2] < MARGIN


@pytest.mark.parametrize(("loss", "state"), [(0.3, "breaks"), (0.04, "cannot-tell"), (-0.02, "cannot-tell")])
def test_what_a_run_confirmed_stays_while_all_pairs_lose_enough_for_a_word(
    loss: float, state: FindingState
) -> None:
    found = joined([loss] * 5, told="breaks")
    assert found.state == state
    assert (interval(found)[1] > 0.0) is (state == "breaks")
