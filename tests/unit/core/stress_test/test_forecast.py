"""Forecasts of proofs: the number of images that is stated decides in about half of the futures."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binomtest

from counterpose_core.commands import PROVE_IMAGES
from counterpose_core.contract.proofs import ProofCreate
from counterpose_core.stress_test import forecast
from counterpose_core.stress_test.confirmation import bets, next_bet
from counterpose_core.stress_test.forecast import Supply, forecast_proof, least_images
from counterpose_core.stress_test.proof import Evidence, join

STRONG = [0.6] * 10
LEFT = 150


def stated(evidence: Evidence, images: int = LEFT, screened: float = 0.4, seed: int = 3) -> int | None:
    """The number that a forecast tells, where most images give a pair."""
    return forecast_proof(evidence, Supply(images, 18, 16, screened), np.random.default_rng(seed)).needed


def test_the_bets_of_many_series_are_those_of_the_test() -> None:
    generator = np.random.default_rng(1)
    losses, counted = generator.uniform(-1, 1, (4, 30)), generator.random((4, 30)) < 0.7
    found = bets(losses, counted)
    for row, at in itertools.product(range(4), range(30)):
        assert found[row, at] == pytest.approx(next_bet(losses[row, :at][counted[row, :at]].tolist()))


def test_a_proof_has_as_many_images_as_one_may_ask_for() -> None:
    most = next(each.le for each in ProofCreate.model_fields["images"].metadata if hasattr(each, "le"))
    assert most == forecast.IMAGES_OF_A_PROOF


def test_a_decided_finding_needs_no_more_images() -> None:
    assert stated(join([STRONG], family=1)) == 0
    assert stated(join([[0.0] * 60], family=1)) == 0


def test_the_more_evidence_there_is_the_fewer_images_are_missing() -> None:
    missing = [stated(join([STRONG[:n]], family=50)) for n in range(1, 9)]
    assert all(each is not None for each in missing)
    assert all(after <= before for before, after in itertools.pairwise(missing))  # type: ignore[operator]
    assert missing[-1] < missing[0]  # type: ignore[operator]


def test_more_images_are_missing_to_show_more_than_a_least_loss() -> None:
    losses = [[1.0, 0.0, 0.0, 0.0] * 4]
    plain, against = (stated(join(losses, family=9, least=least)) for least in (0.0, 0.1))
    assert plain is not None
    assert against is None or against > plain


def test_what_points_neither_way_is_not_foreseen() -> None:
    assert stated(join([[0.9, -0.9] * 40], family=20)) is None


def test_no_number_is_told_that_is_more_than_the_images_left() -> None:
    few = join([STRONG[:3]], family=50)
    number = stated(few)
    assert number is not None
    assert number > 4
    assert stated(few, images=4) is None
    assert stated(few, images=0) is None


def test_the_more_images_fail_to_give_a_pair_the_more_are_needed() -> None:
    few, generator = join([STRONG[:3]], family=50), np.random.default_rng(3)
    mostly_lost = forecast_proof(few, Supply(LEFT, 40, 8, 0.4), generator).needed
    assert (mostly_lost or 0) > 2 * (stated(few) or LEFT)


def test_a_forecast_is_a_matter_of_its_seed_and_takes_no_time() -> None:
    few = join([[0.9, 0.0, 0.4, -0.1]], family=24)
    start = time.process_time()
    assert stated(few, images=1000) == stated(few, images=1000)
    assert time.process_time() - start < 2 * 0.2


World = tuple[float, float, float]
"""The share of images that a change harms, the noise of the others, and the least loss of the harmed."""


def losses_in(world: World, images: int, generator: Generator) -> NDArray[np.float64]:
    """The losses of so many images."""
    share, noise, least = world
    harmed = generator.random(images) < share
    return np.clip(
        np.where(harmed, generator.uniform(least, 1, images), generator.normal(0, noise, images)), -1, 1
    )


def open_findings(number: int, generator: Generator) -> list[tuple[World, float, Evidence]]:
    """The findings of runs that list the worst of 60 changes, most of them harmless, and leave these open.

    Each with its world, the loss that chose it, and the evidence of 0 to 12 pairs.
    """
    found: list[tuple[World, float, Evidence]] = []
    while len(found) < number:
        worlds = [
            (
                0.0 if generator.random() < 0.85 else generator.uniform(0.1, 1.0),
                generator.choice([0.02, 0.1, 0.2]),
                generator.choice([0.2, 0.6]),
            )
            for _ in range(60)
        ]
        seen = [(float(losses_in(world, 5, generator).mean()), world) for world in worlds]
        listed = sorted((each for each in seen if each[0] >= 0.1), reverse=True)[:12]
        for screened, world in listed:
            pairs = losses_in(world, int(generator.choice([0, 4, 8, 12])), generator)
            evidence = join([pairs], family=len(listed))
            if not (evidence.proven or evidence.absent):
                found.append((world, screened, evidence))
    return found[:number]


def is_decided(world: World, number: int, evidence: Evidence, generator: Generator) -> bool:
    """Whether so many images decide the finding in one future of its true world."""
    gate = generator.random(number) < 16 / 18
    more = losses_in(world, number, generator)
    proofs = [more[at : at + 100][gate[at : at + 100]] for at in range(0, number, 100)]
    joined = join([evidence.losses, *proofs], evidence.family)
    return joined.proven or joined.absent


def test_forecasts_hold_in_true_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "FUTURES", 200)
    generator, decided = np.random.default_rng(11), list[bool]()
    chances, usual = list[float](), list[bool]()
    for world, screened, evidence in open_findings(400, generator):
        found = forecast_proof(evidence, Supply(LEFT, 18, 16, screened), generator)
        if found.needed is not None:
            decided.append(is_decided(world, found.needed, evidence, generator))
        chances.append(found.chance(PROVE_IMAGES) or 0.0)
        usual.append(is_decided(world, PROVE_IMAGES, evidence, generator))
    assert len(decided) >= 200
    assert 0.4 <= np.mean(decided) <= 0.6
    told, came = np.array(chances), np.array(usual)
    for least, most in ((0.0, 1.01), (0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
        rows = (told >= least) & (told < most)
        truth = binomtest(int(came[rows].sum()), int(rows.sum())).proportion_ci()
        assert rows.sum() >= 40
        assert truth.low <= told[rows].mean() <= truth.high, (least, most)


@pytest.mark.parametrize("family", [1, 4, 24])
@pytest.mark.parametrize("pairs", [[], [0.3, 0.0, 0.5]])
def test_fewer_images_than_the_least_decide_nothing_and_the_least_can(
    family: int, pairs: list[float]
) -> None:
    least = least_images(join([pairs], family))
    assert join([pairs, [1.0] * least], family).proven
    for loss in (0.0, 0.5, 1.0):
        fewer = join([pairs, [loss] * (least - 1)], family)
        assert (fewer.proven, fewer.absent) == (False, False)
