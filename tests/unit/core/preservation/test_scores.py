"""A pair's scores tell what was moved, changed inside and outside, and why a score is missing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import REASONS, PreservationScores, measure
from counterpose_core.transforms.arrays import Pixels
from fakes.textures import box, textured

SIZE = 96, 128
REGION = box(SIZE, slice(25, 75), slice(40, 100))


def edited_inside(source: Pixels, other: Pixels) -> Pixels:
    """Return an image of which just the region was replaced."""
    return np.where(REGION[..., None], other, source)


def test_an_edit_of_the_region_alone_changes_nothing_outside() -> None:
    scores = measure(textured(1), edited_inside(textured(1), textured(2)), region=REGION)
    assert scores.inside is not None
    assert scores.outside is not None
    assert scores.outside.worst_colour == scores.outside.worst_structure == 0.0
    assert scores.inside.colour > 10 < scores.inside.worst_colour
    assert scores.region_share == pytest.approx(REGION.mean(), abs=0.01)
    assert scores.region_given
    assert (scores.size_ratio, scores.form) == ((1.0, 1.0), 0.0)
    assert Limits().faults(scores) == ()


def test_a_moved_image_is_compared_as_it_was_before_it_moved() -> None:
    moved = np.where(
        np.roll(REGION, 8, axis=1)[..., None], textured(2), textured(1, SIZE, shift=(8 / 128, 0.0))
    )
    scores = measure(textured(1), moved, region=REGION)
    assert scores.registration is not None
    assert scores.registration.shift == pytest.approx((8 / 128, 0), abs=0.002)
    assert scores.outside is not None
    assert scores.outside.worst_colour < 3.0
    assert Limits().faults(scores) == ("moved",)


def test_another_size_is_told_and_of_the_same_form_no_fault() -> None:
    larger, wider = (
        np.asarray(
            Image.fromarray(edited_inside(textured(1), textured(2))).resize(size, Image.Resampling.BICUBIC)
        )
        for size in ((256, 192), (160, 96))
    )
    scores = measure(textured(1), larger, region=REGION)
    assert scores.size_ratio == (2.0, 2.0)
    assert Limits().faults(scores) == ()
    stretched = measure(textured(1), wider, region=REGION)
    assert stretched.form == pytest.approx(0.25)
    assert Limits().faults(stretched) == ("reshaped",)


def test_a_colour_that_only_the_region_took_on_is_no_drift() -> None:
    source = (20 + 0.8 * textured(1)).astype(np.uint8)
    scores = measure(source, edited_inside(source, source + np.uint8(10)), region=REGION)
    assert scores.drift is not None
    assert scores.drift.offset == pytest.approx((0.0, 0.0, 0.0), abs=0.1)


def test_without_a_mask_the_region_is_where_the_pair_differs() -> None:
    scores = measure(textured(1), edited_inside(textured(1), textured(2)))
    assert not scores.region_given
    assert scores.region_share == pytest.approx(REGION.mean(), abs=0.06)
    assert scores.inside is not None
    nothing = measure(textured(1), textured(1))
    assert nothing.inside is None
    assert nothing.missing["inside"] == "no-region"
    assert Limits().faults(nothing) == ("ignored",)


def test_of_a_control_nothing_is_inside_and_its_noise_is_all_outside() -> None:
    noisy = edited_inside(textured(1), textured(2))
    scores = measure(textured(1), noisy, region=np.zeros(SIZE, dtype=np.bool_))
    assert scores.inside is None
    assert scores.missing["inside"] == "no-room"
    assert scores.outside is not None
    assert scores.outside.share == 1.0
    assert scores.outside.worst_colour > 20


def test_a_mask_of_levels_counts_from_its_middle_and_must_be_as_large_as_the_source() -> None:
    edited = edited_inside(textured(1), textured(2))
    assert measure(textured(1), edited, region=np.where(REGION, 128, 127).astype(np.uint8)) == measure(
        textured(1), edited, region=REGION
    )
    with pytest.raises(ValueError, match=r"\(96, 96\).*\(96, 128\)"):
        measure(textured(1), edited, region=REGION[:, :96])


def test_patches_and_a_perceptual_distance_are_means_of_their_places() -> None:
    features = np.random.default_rng(0).normal(size=(12, 16, 6))
    other = features.copy()
    other[4:8, 6:12] *= -1.0
    scores = measure(
        textured(1),
        edited_inside(textured(1), textured(2)),
        region=REGION,
        patches=(features, other),
        perceptual=REGION.astype(np.float32),
    )
    assert scores.inside is not None
    assert scores.outside is not None
    assert scores.inside.patches is not None
    assert scores.outside.patches is not None
    assert scores.inside.patches > 1.0 > 0.1 > scores.outside.patches
    assert (scores.inside.perceptual, scores.outside.perceptual) == (1.0, 0.0)
    assert not scores.missing


def small() -> PreservationScores:
    return measure(textured(1, (31, 64)), textured(1, (31, 64)))


def flat() -> PreservationScores:
    return measure(np.full((*SIZE, 3), 90, np.uint8), np.full((*SIZE, 3), 95, np.uint8), region=REGION)


def whole() -> PreservationScores:
    return measure(textured(1), textured(2), region=np.ones(SIZE, dtype=np.bool_))


def strangers() -> PreservationScores:
    return measure(textured(1), textured(2), region=REGION)


@pytest.mark.parametrize(
    ("pair", "missing"),
    [
        (small, dict.fromkeys(("registration", "inside", "outside", "drift", "hue"), "image-too-small")),
        (flat, {"registration": "no-texture", "hue": "no-hue"}),
        (whole, dict.fromkeys(("outside", "drift", "hue"), "no-room") | {"registration": "no-texture"}),
        (strangers, {"registration": "nothing-in-common", "drift": "no-majority", "hue": "no-majority"}),
    ],
    ids=["small", "flat", "whole", "strangers"],
)
def test_what_cannot_be_measured_is_none_and_has_its_reason(
    pair: Callable[[], PreservationScores], missing: dict[str, str]
) -> None:
    scores = pair()
    told = dict(scores.missing)
    optional = {told.pop("patches"), told.pop("perceptual")}
    assert optional == ({"image-too-small"} if pair is small else {"not-given"})
    assert told == missing
    parts = {
        "registration": scores.registration,
        "inside": scores.inside,
        "outside": scores.outside,
        "drift": scores.drift,
        "hue": scores.drift and scores.drift.hue,
    }
    assert {name for name, part in parts.items() if part is None} == set(missing)
    assert set(missing.values()) <= set(REASONS)
