"""Error rates of the oracle, and figures corrected for them."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_miniature.world.scene import ATTRIBUTES
from evaluation.tests.fakes.validity import judgement, scene
from evaluation.validity.labels import UNCLEAR, Asked, Labelled
from evaluation.validity.oracle_error import ErrorRates, accuracy, corrected, corrected_figures, rates_of

BOAT = scene().attributes()
SANDY = BOAT | {"background": "sand"}
PERFECT = ErrorRates(hits=80, true=80, rejections=20, false=20)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def labelled(seen: dict[str, str]) -> Labelled:
    """A boat that should be moved onto the sand, and what a person sees."""
    asked = Asked(
        image="a" * 64,
        edit_type="background",
        kept=True,
        caption="a photo of a red boat on the water",
        edited_caption="a photo of a red boat on the sand",
        scene=BOAT,
    )
    return Labelled(asked, np.zeros((64, 64, 3), dtype=np.uint8), seen)


def test_accuracy_is_measured_per_attribute_and_jointly() -> None:
    found = accuracy([(BOAT, BOAT), (SANDY, BOAT)])
    assert (found["background"].estimate, found["colour"].estimate, found["all"].estimate) == (0.5, 1.0, 0.5)
    assert set(found) == {*ATTRIBUTES, "all"}


def test_unclear_attributes_are_not_counted() -> None:
    found = accuracy([(BOAT, BOAT), (BOAT, BOAT | {"weather": UNCLEAR})])
    assert (found["weather"].n, found["colour"].n, found["all"].n) == (1, 2, 1)


def test_error_rates_compare_verdicts_and_not_attributes() -> None:
    by_eye = [SANDY, SANDY, BOAT, BOAT]
    by_oracle = [SANDY, BOAT, BOAT, SANDY]
    found = rates_of([labelled(one) for one in by_eye], by_oracle)
    assert found["success"] == ErrorRates(hits=1, true=2, rejections=1, false=2)
    assert found["label"] == ErrorRates(hits=4, true=4, rejections=0, false=0)


def test_a_perfect_oracle_needs_no_correction() -> None:
    found = corrected({str(at): (4, 5) for at in range(100)}, PERFECT, rng())
    assert found.estimate == pytest.approx(0.8)
    assert found.n == 500


def test_known_error_rates_recover_the_true_share() -> None:
    # Of 70 % right, 90 % are called right; of the rest 20 % are: 0.7 * 0.9 + 0.3 * 0.2 = 0.69.
    rates = ErrorRates(hits=90, true=100, rejections=80, false=100)
    found = corrected({str(at): (69, 100) for at in range(50)}, rates, rng())
    assert found.estimate == pytest.approx(0.7)
    assert found.low is not None
    assert found.high is not None
    assert 0.6 < found.low < 0.7 < found.high < 0.8


def test_fewer_labels_give_a_wider_interval() -> None:
    counts = {str(at): (69, 100) for at in range(50)}
    widths = []
    for times in (1, 100):
        rates = ErrorRates(hits=9 * times, true=10 * times, rejections=8 * times, false=10 * times)
        found = corrected(counts, rates, rng())
        assert found.low is not None
        assert found.high is not None
        widths.append(found.high - found.low)
    assert widths[0] > 3 * widths[1]


def test_error_free_labels_do_not_give_certainty() -> None:
    few = ErrorRates(hits=8, true=8, rejections=2, false=2)
    found = corrected({str(at): (4, 5) for at in range(100)}, few, rng())
    assert found.estimate == pytest.approx(0.8)
    assert found.low is not None
    assert found.low < 0.75


def test_the_interval_covers_the_true_share_at_the_nominal_rate() -> None:
    drawn = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        rates = ErrorRates(
            hits=int(drawn.binomial(60, 0.95)), true=60, rejections=int(drawn.binomial(40, 0.9)), false=40
        )
        right = drawn.binomial(5, 0.8, size=60)
        called = drawn.binomial(right, 0.95) + drawn.binomial(5 - right, 0.1)
        found = corrected({str(at): (int(k), 5) for at, k in enumerate(called)}, rates, drawn, draws=400)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.8 <= found.high
    assert 0.9 <= held / 200 <= 1.0


def test_a_guessing_oracle_leaves_the_share_unknown() -> None:
    guessing = ErrorRates(hits=50, true=100, rejections=50, false=100)
    assert corrected({"s": (1, 2)}, guessing, rng()).estimate is None


def test_without_judged_images_the_share_is_unknown() -> None:
    assert corrected({}, PERFECT, rng()).n == 0


def test_kept_and_generated_edits_are_corrected_by_type() -> None:
    shown = [judgement(source=str(at), good=at % 2 == 0, kept=at % 2 == 0) for at in range(40)]
    controls = [judgement(source="r", edit_type=name) for name in ("reconstruction", "lance-r")]
    rates = dict.fromkeys(("success", "fidelity", "label"), PERFECT)
    found = corrected_figures([*shown, *controls], rates, rng())
    assert (found["background"].fidelity.estimate, found["background"].fidelity.n) == (1.0, 20)
    assert (found["all"].fidelity_unfiltered.estimate, found["all"].fidelity_unfiltered.n) == (0.5, 40)
    assert found["domain"].success.n == 0
