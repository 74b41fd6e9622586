"""Names in a plot: every one can be read, at its point, whole and inside the axes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from faultline_gateway.reports.labels import (
    LINE_HEIGHT,
    LONGEST_LINE,
    Label,
    Spot,
    place_labels,
    width_of,
    wrapped,
)

FRAME = (58.0, 12.0, 954.0, 640.0)
PLACES = ("on the grass", "in the snow", "on a wooden table", "in the forest")
TIMES = ("at night", "in the fog", "in the rain", "in bright sunlight", "at dusk", "from above")
NAMES = [f"a photo of a <class> {place} {time}" for place in PLACES for time in TIMES]


def spot(name: str, x: float, y: float) -> Spot:
    """A point with an interval on both axes."""
    return Spot(name, x, y, (x - 60.0, x + 60.0), (y + 30.0, y - 30.0))


def cloud(count: int, around: tuple[float, float], wide: float = 40.0) -> list[Spot]:
    """So many shifts of which many lie close together, as shifts do."""
    draws = np.random.default_rng(0).normal(around, wide, (count, 2))
    inside = np.clip(draws, FRAME[:2], FRAME[2:])
    return [spot(name, float(x), float(y)) for name, (x, y) in zip(NAMES, inside, strict=False)]


def box(label: Label) -> tuple[float, float, float, float]:
    """Where a label's text is at most: left, top, right, bottom."""
    width = max(width_of(text) for _, text in label.lines)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    top = label.lines[0][0] - 11.0
    return left, top, left + width, top + LINE_HEIGHT * len(label.lines)


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two rectangles share an area."""
    return all(max(one[side], other[side]) < min(one[side + 2], other[side + 2]) - 0.2 for side in (0, 1))


CLOUDS = {
    "few": cloud(6, (500.0, 300.0)),
    "many": cloud(24, (500.0, 300.0)),
    "at the left edge": cloud(12, (58.0, 300.0)),
    "in the upper right corner": cloud(12, (954.0, 12.0)),
    "on one spot": [spot(name, 500.0, 300.0) for name in NAMES[:6]],
}


@pytest.mark.parametrize("where", CLOUDS)
def test_every_name_is_whole_and_covers_no_other_and_no_point(where: str) -> None:
    spots = CLOUDS[where]
    labels = [label for label in place_labels(spots, FRAME) if label is not None]
    assert len(labels) == len(spots)
    boxes = [box(label) for label in labels]
    for one, other in itertools.combinations(boxes, 2):
        assert not overlap(one, other)
    for each in boxes:
        assert min(each[0] - FRAME[0], each[1] - FRAME[1], FRAME[2] - each[2], FRAME[3] - each[3]) > -0.2
        assert not any(overlap(each, (at.x - 4, at.y - 4, at.x + 4, at.y + 4)) for at in spots)


@pytest.mark.parametrize("where", CLOUDS)
def test_a_name_is_beside_its_point_or_led_to_it(where: str) -> None:
    for at, label in zip(CLOUDS[where], place_labels(CLOUDS[where], FRAME), strict=True):
        assert label is not None
        left, top, right, bottom = box(label)
        away = math.hypot(max(left - at.x, at.x - right, 0.0), max(top - at.y, at.y - bottom, 0.0))
        if label.leader is None:
            assert away < 15.0
            continue
        assert label.leader[:2] == (at.x, at.y)
        assert left - 0.2 <= label.leader[2] <= right + 0.2
        assert top - 0.2 <= label.leader[3] <= bottom + 0.2


def test_a_lonely_name_is_next_to_its_point() -> None:
    (label,) = place_labels([spot("in the snow", 500.0, 300.0)], FRAME)
    assert label is not None
    assert label.leader is None
    assert [text for _, text in label.lines] == ["in the snow"]


def test_a_name_keeps_off_the_interval_of_another_point() -> None:
    named = spot("in the snow", 500.0, 300.0)
    (free,) = place_labels([named], FRAME)
    assert free is not None
    left, top, _, bottom = box(free)
    y = (top + bottom) / 2
    label, _ = place_labels([named, Spot("", 800.0, y, (left, 900.0), (y, y))], FRAME)
    assert label is not None
    assert not overlap(box(label), (left, y - 0.5, 900.0, y + 0.5))


def test_a_name_rather_lies_across_an_interval_than_far_from_its_point() -> None:
    rows = [Spot("", 200.0, 100.0 + 12.0 * row, (200.0, 800.0), (0.0, 0.0)) for row in range(30)]
    label = place_labels([spot("in the snow", 500.0, 280.0), *rows], FRAME)[0]
    assert label is not None
    assert label.leader is None


def test_a_point_without_a_name_gets_none_and_is_still_kept_clear() -> None:
    named = spot("in the snow", 500.0, 300.0)
    free = place_labels([named], FRAME)[0]
    assert free is not None
    left, top, right, bottom = box(free)
    nameless = spot("", (left + right) / 2, (top + bottom) / 2)
    label, none = place_labels([named, nameless], FRAME)
    assert none is None
    assert label is not None
    assert not overlap(box(label), (nameless.x - 4, nameless.y - 4, nameless.x + 4, nameless.y + 4))


def test_names_for_which_no_room_is_left_are_left_out() -> None:
    small = (0.0, 0.0, 200.0, 70.0)
    labels = place_labels([spot(name, 100.0, 35.0) for name in NAMES], small)
    kept = [box(label) for label in labels if label is not None]
    assert 0 < len(kept) < len(NAMES)
    assert not any(overlap(one, other) for one, other in itertools.combinations(kept, 2))


def test_a_plot_without_points_has_no_labels() -> None:
    assert place_labels([], FRAME) == []


def test_a_long_name_goes_on_in_a_second_line_and_keeps_both_its_ends() -> None:
    assert wrapped("in the snow") == ["in the snow"]
    assert wrapped("on a wooden table in the rain at dusk") == ["on a wooden table", "in the rain at dusk"]
    long = wrapped("a photo of a <class> that somebody left on a wooden table in the garden at night")
    assert long == ["a photo of a <class> that …", "table in the garden at night"]
    assert [len(line) for line in wrapped("x" * 300)] == [LONGEST_LINE, LONGEST_LINE - 2]


def test_of_two_lines_neither_is_longer_than_need_be() -> None:
    assert wrapped("a photo of a <class> on the grass at night") == [
        "a photo of a <class>", "on the grass at night",
    ]  # fmt: skip


def test_what_is_wide_takes_more_room() -> None:
    assert width_of("lit") < width_of("sea") < width_of("SEA") < width_of("MWM")
    assert width_of("雪の中") > width_of("sea")
