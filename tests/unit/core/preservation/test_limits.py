"""Each fault has its name, and an editor's controls raise what its noise may do, never what may move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from counterpose_core.contract.preservation import FAULTS
from counterpose_core.preservation.change import Change
from counterpose_core.preservation.drift import Drift
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.registration import Registration
from counterpose_core.preservation.scores import PreservationScores

QUIET = Change(0.5, 0.01, 0.5, 0.02, 1.0)
LOUD = Change(0.5, 0.2, 20.0, 0.9, 40.0)
REST = Registration((0.0, 0.0), (1.0, 1.0), 1.0, 1.0, 1.0)
STEADY = Drift((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), 0.1, 0.0, 1.0)
RIGHT = PreservationScores((1.0, 1.0), True, 0.5, REST, LOUD, QUIET, STEADY)


def test_an_edit_that_keeps_the_rest_has_no_fault() -> None:
    assert Limits().faults(RIGHT) == ()


@pytest.mark.parametrize(
    ("fault", "scores"),
    [
        ("reshaped", replace(RIGHT, size_ratio=(1.0, 1.1))),
        ("reshaped", replace(RIGHT, size_ratio=(1.1, 1.0))),
        ("moved", replace(RIGHT, registration=replace(REST, shift=(0.0, -0.02)))),
        ("scaled", replace(RIGHT, registration=replace(REST, scale=(1.0, 0.97)))),
        ("drifted", replace(RIGHT, drift=replace(STEADY, colour=9.0))),
        ("drifted", replace(RIGHT, drift=replace(STEADY, hue=-15.0))),
        ("leaked", replace(RIGHT, outside=replace(QUIET, worst_colour=30.0))),
        ("leaked", replace(RIGHT, outside=replace(QUIET, worst_structure=0.8))),
        ("ignored", replace(RIGHT, inside=QUIET)),
        ("ignored", replace(RIGHT, inside=None, missing={"inside": "no-region"})),
    ],
)
def test_each_fault_has_its_name(fault: str, scores: PreservationScores) -> None:
    assert Limits().faults(scores) == (fault,)


def test_faults_are_told_in_one_order() -> None:
    every = PreservationScores(
        (2.0, 1.0), True, 0.5, replace(REST, shift=(0.1, 0.0), scale=(0.5, 1.0)), QUIET, LOUD,
        replace(STEADY, colour=20.0),
    )  # fmt: skip
    assert Limits().faults(every) == FAULTS


def test_what_was_not_measured_is_no_fault() -> None:
    nothing = PreservationScores(
        (1.0, 1.0), True, missing=dict.fromkeys(("registration", "inside"), "no-texture")
    )
    assert Limits().faults(nothing) == ()


def test_nobody_knows_what_should_have_stayed_outside_an_estimated_region() -> None:
    estimated = replace(RIGHT, region_given=False, outside=LOUD, drift=replace(STEADY, colour=20.0))
    assert Limits().faults(estimated) == ()


def controls(colours: Sequence[float]) -> list[PreservationScores]:
    return [replace(RIGHT, outside=replace(QUIET, worst_colour=colour)) for colour in colours]


def test_controls_raise_what_noise_may_change_and_not_what_may_move() -> None:
    raised = Limits().raised(controls(np.linspace(2, 12, 39).tolist()))
    assert raised is not None
    # 38 of 39 are below what 95 % of the next are below.
    assert raised.leak_colour == pytest.approx(np.linspace(2, 12, 39)[37])
    usual = np.quantile(np.linspace(2, 12, 39), 0.75)
    assert raised.leak_structure / Limits().leak_structure == pytest.approx(raised.leak_colour / usual)
    assert raised.ignored_colour / Limits().ignored_colour == pytest.approx(
        raised.leak_colour / Limits().leak_colour
    )
    assert (raised.moved, raised.scaled, raised.form) == (Limits().moved, Limits().scaled, Limits().form)
    assert raised.controls == 39


def test_quiet_controls_lower_no_limit() -> None:
    assert Limits().raised(controls([0.0] * 30)) == replace(Limits(), controls=30)


def test_a_level_needs_enough_controls() -> None:
    assert Limits().raised(controls([1.0] * 18)) is None
    assert Limits().raised(controls([1.0] * 19)) is not None
    assert Limits().raised(controls([1.0] * 9), level=0.1) is not None


def test_a_control_with_an_estimated_region_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Limits().raised([*controls([1.0] * 30), replace(RIGHT, region_given=False)])


@pytest.mark.parametrize("count", [24, 40])
def test_little_more_than_the_level_is_refused_of_edits_that_are_as_noisy_as_controls(count: int) -> None:
    generator = np.random.default_rng(1)
    refused = []
    for _ in range(600):
        colours, structures = generator.gamma(3.0, 4.0, count + 1), generator.gamma(4.0, 0.1, count + 1)
        noise = [
            replace(RIGHT, outside=replace(QUIET, worst_colour=colour, worst_structure=structure))
            for colour, structure in zip(colours.tolist(), structures.tolist(), strict=True)
        ]
        limits = Limits().raised(noise[:-1])
        assert limits is not None
        refused.append("leaked" in limits.faults(noise[-1]))
    assert 0.015 < np.mean(refused) < 0.075
