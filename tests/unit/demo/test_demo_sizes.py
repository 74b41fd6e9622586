"""The calculation behind the sizes of the demo: one classifier must be able to break, and one to hold."""

from __future__ import annotations

import math

from scipy import stats

from counterpose._cli.demo import (
    CLASSES,
    CONFIRM_SHARE,
    EDITS_PER_IMAGE,
    HELD_OUT,
    IMAGES,
    LANCE_R_EDITS,
    OTHERS,
    PER_CLASS,
    WINNERS,
)
from counterpose_core.bug_hunt.budget import share
from counterpose_core.bug_hunt.comparison import detectable_rate
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.stress_test.confirmation import MARGIN, MOST_REDRAWN_PAIRS
from counterpose_core.stress_test.screening import FEWEST, least_pairs
from counterpose_gateway.methods.stress_test.division import divide
from counterpose_gateway.records.source_table import SourceTable
from counterpose_miniature.world.scene import VALUES

KEPT, KEPT_OF_OTHERS = {"plate": 0.65, "sled": 0.88}, 0.78
"""The share of images that keep an edit and its placebo: 34 and 46 of 52, and 14 of 18."""


def test_the_screen_can_rule_out_a_loss_and_the_rest_can_prove_one() -> None:
    per_class = {name: PER_CLASS if name in CLASSES else OTHERS for name in VALUES["object_class"]}
    sources = [
        Source(
            id=f"{name}-{number}",
            image="0" * 64,
            label=name,
            filename=f"{name}/{number}.png",
            width=64,
            height=64,
        )
        for name, count in per_class.items()
        for number in range(count)
    ]
    create = StressTestCreate(
        dataset="demo", classifiers=["one"], seed=0, max_edits_per_image=EDITS_PER_IMAGE,
        lance_r_edits_per_image=LANCE_R_EDITS, confirm_share=CONFIRM_SHARE,
    )  # fmt: skip
    division = divide(create, SourceTable.of(sources), redraws=True)
    expected = math.floor(sum(KEPT.get(source.label, KEPT_OF_OTHERS) for source in division.screened))
    # One image more or less decides: three are allowed for.
    high = proportion(0, expected - 3).high
    assert high is not None
    assert high <= MARGIN
    assert division.plan is not None
    pairs = least_pairs(FEWEST)
    assert pairs <= MOST_REDRAWN_PAIRS
    # Two planted bugs, with a pair in three lost to the gate, beside looks of four pairs at two accidents.
    needed = 2 * math.ceil(1.5 * pairs) + 2 * 4
    assert division.plan.budget >= needed


SHARE_AMONG_FLOWERS = 0.02
"""Of the images of "a photo of a fly", those that stand among flowers: 4 of 204, and 5 of 112."""


def test_the_hunt_sees_two_failures_and_can_prove_what_they_share() -> None:
    hypotheses = BugHuntCreate.model_fields["hypotheses"].default
    shares = share(IMAGES, 1, hypotheses=hypotheses, winners=WINNERS, held_out=HELD_OUT)
    # A single failure has no word more often than the others by chance.
    seen = float(stats.binom.sf(1, shares.baseline, SHARE_AMONG_FLOWERS))
    assert seen >= 0.9
    proven = detectable_rate(SHARE_AMONG_FLOWERS, HELD_OUT, WINNERS)
    assert proven is not None
    assert proven <= 0.2
