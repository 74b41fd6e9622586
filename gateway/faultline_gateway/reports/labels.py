"""Names beside the points of a plot, placed so that none covers another, covers a point or is cut."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]
"""Rectangles by row: left, top, right, bottom."""
Floats = NDArray[np.float64]

FONT = 12.0
LINE_HEIGHT = 14.0
LONGEST_LINE = 30
"""Characters after which a name goes on in a second line."""
MOST_NAMES = 40
"""Of more points the first ones are named: nobody reads more, and placing them takes seconds."""

_NARROW = frozenset(" .,:;'!|()[]ijlftrI-")
_WIDE = frozenset("mwMW@%<>…—")
_ASCENT = 11.0
_AIR = 3.0
_DOT = 4.5
_FAR_ENOUGH_TO_LEAD = 14.0
_DISTANCES = (8.0, 13.0, 20.0, 30.0, 44.0, 62.0, 84.0, 112.0, 146.0, 188.0, 240.0)
_DIRECTIONS = 16
_PASSES = 4
_TINY = 1e-6
_HIT = 1e4
"""What covering a label or a point costs: more than any distance."""
_CROSSED = 40.0
_STRUCK = 0.6
"""Cost of a unit of an interval's line under a label: it can still be read there."""


@dataclass(frozen=True)
class Label:
    """A placed name: its lines, each on its baseline, and a line to its point where that is far.

    ``anchor`` is SVG's: which end of the text is at ``x``.
    """

    lines: list[tuple[float, str]]
    x: float
    anchor: str
    leader: tuple[float, float, float, float] | None


@dataclass(frozen=True)
class Spot:
    """A point that wants a name, and the ends of its intervals."""

    name: str
    x: float
    y: float
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]


def wrapped(name: str) -> list[str]:
    """A name in one line or in two as short as they can be; of a longer one the middle is left out.

    Prompts differ at their beginnings and at their ends.
    """
    whole = textwrap.wrap(name, LONGEST_LINE)
    if len(whole) > 2:
        room = LONGEST_LINE - len(" …")
        (first, *_), (last, *_) = textwrap.wrap(name, room), textwrap.wrap(name[::-1], room)
        return [f"{first} …", last[::-1]]
    shorter = (textwrap.wrap(name, width) for width in range(1, LONGEST_LINE))
    return next((lines for lines in shorter if len(lines) == len(whole)), whole)


def width_of(text: str) -> float:
    """Most that a line takes in the wider of usual sans-serif fonts."""
    return FONT * sum(map(_em, text))


def place_labels(spots: Sequence[Spot], frame: tuple[float, float, float, float]) -> list[Label | None]:
    """A label for each spot inside ``frame`` (left, top, right, bottom); None where no room is left.

    Each label takes the place that costs least beside all others, a few times over: near its point, off
    other labels and points, and rather not across intervals.
    """
    named = [(index, text) for index, spot in enumerate(spots) if (text := wrapped(spot.name))]
    texts = dict(named[:MOST_NAMES])
    points = _around([(spot.x, spot.y) for spot in spots])
    offered = {index: _offered(spots[index], text, frame) for index, text in texts.items()}
    fixed = {index: _cost_of_place(spots[index], boxes, points, spots) for index, boxes in offered.items()}
    chosen: dict[int, Boxes] = {}
    for _ in range(_PASSES):
        before = dict(chosen)
        for index, boxes in offered.items():
            others = [box for other, box in chosen.items() if other != index]
            cost = fixed[index] + _cost_beside(spots[index], boxes, others)
            chosen[index] = boxes[np.argmin(cost)]
        if all(index in before and (before[index] == box).all() for index, box in chosen.items()):
            break
    fitting = _fitting(chosen, points)
    return [
        _written(spot, texts[index], fitting[index]) if index in fitting else None
        for index, spot in enumerate(spots)
    ]


def _fitting(chosen: Mapping[int, Boxes], points: Boxes) -> dict[int, Boxes]:
    """The labels that cover no point and none of the labels before."""
    taken = points
    fitting: dict[int, Boxes] = {}
    for index, box in chosen.items():
        if not _shared(box[None], taken).any():
            taken = np.vstack([taken, box])
            fitting[index] = box
    return fitting


def _offered(spot: Spot, text: Sequence[str], frame: tuple[float, float, float, float]) -> Boxes:
    """Places around a point in every direction, nearest first, each pushed inside the frame."""
    width = max(map(width_of, text))
    height = LINE_HEIGHT * len(text)
    angles = [2 * math.pi * step / _DIRECTIONS - math.pi / 4 for step in range(_DIRECTIONS)]
    found = []
    for distance in _DISTANCES:
        for angle in angles:
            across, down = math.cos(angle), math.sin(angle)
            left = spot.x + distance * across + width * (_side(across) - 1) / 2
            top = spot.y + distance * down + height * (_side(down) - 1) / 2
            left = max(frame[0], min(left, frame[2] - width))
            top = max(frame[1], min(top, frame[3] - height))
            found.append((left, top, left + width, top + height))
    return np.array(found)


def _side(share: float) -> int:
    return 0 if abs(share) < 0.35 else int(math.copysign(1, share))


def _cost_of_place(spot: Spot, boxes: Boxes, points: Boxes, spots: Sequence[Spot]) -> Floats:
    """What each place costs whatever the other labels do."""
    across = [(min(each.x_ends), each.y - 0.5, max(each.x_ends), each.y + 0.5) for each in spots]
    down = [(each.x - 0.5, min(each.y_ends), each.x + 0.5, max(each.y_ends)) for each in spots]
    struck = _shared(boxes, np.array([*across, *down])).sum(axis=1)
    covered = (_shared(boxes, points) > 0).sum(axis=1)
    away = np.hypot(
        np.maximum(np.maximum(boxes[:, 0] - spot.x, spot.x - boxes[:, 2]), 0.0),
        np.maximum(np.maximum(boxes[:, 1] - spot.y, spot.y - boxes[:, 3]), 0.0),
    )
    others = points[[(each.x, each.y) != (spot.x, spot.y) for each in spots]]
    cost: Floats = _STRUCK * struck + _HIT * covered + away + _CROSSED * _crossed(spot, boxes, others)
    return cost


def _cost_beside(spot: Spot, boxes: Boxes, others: Sequence[Boxes]) -> Floats:
    """What each place costs beside the other labels."""
    if not others:
        return np.zeros(len(boxes))
    taken = np.array(others)
    hit = (_shared(boxes, taken) > 0).sum(axis=1)
    cost: Floats = _HIT * hit + _CROSSED * _crossed(spot, boxes, taken)
    return cost


def _crossed(spot: Spot, boxes: Boxes, others: Boxes) -> Floats:
    """Through how many of the others the line from a point to each place runs."""
    start = np.array([spot.x, spot.y])
    along = np.clip(start, boxes[:, :2], boxes[:, 2:]) - start
    # A line along an axis would divide by nothing.
    along = np.where(np.abs(along) < _TINY, _TINY, along)[:, None]
    first = (others[:, :2] - start) / along
    second = (others[:, 2:] - start) / along
    enters = np.minimum(first, second).max(axis=-1)
    leaves = np.maximum(first, second).min(axis=-1)
    crossed: Floats = ((enters <= leaves) & (leaves >= 0.0) & (enters <= 1.0)).sum(axis=1).astype(np.float64)
    return crossed


def _shared(boxes: Boxes, others: Boxes) -> Floats:
    """Area that each box shares with each of the others."""
    near = np.maximum(boxes[:, None, :2] - _AIR / 2, others[None, :, :2])
    far = np.minimum(boxes[:, None, 2:] + _AIR / 2, others[None, :, 2:])
    area: Floats = np.prod(np.maximum(far - near, 0.0), axis=-1)
    return area


def _around(centres: Sequence[tuple[float, float]]) -> Boxes:
    boxes = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in centres]
    return np.array(boxes).reshape(-1, 4)


def _written(spot: Spot, text: list[str], box: Boxes) -> Label:
    left, top, right, bottom = (float(edge) for edge in box)
    anchor, x = "middle", (left + right) / 2
    if left >= spot.x:
        anchor, x = "start", left
    elif right <= spot.x:
        anchor, x = "end", right
    y = min(max(spot.y, top), bottom)
    leads = math.hypot(x - spot.x, y - spot.y) > _FAR_ENOUGH_TO_LEAD
    leader = (spot.x, spot.y, round(x, 1), round(y, 1)) if leads else None
    lines = [(round(top + _ASCENT + row * LINE_HEIGHT, 1), line) for row, line in enumerate(text)]
    return Label(lines, round(x, 1), anchor, leader)


def _em(letter: str) -> float:
    if letter in _NARROW:
        return 0.4
    if letter in _WIDE or ord(letter) > 0x2E80:
        return 1.0
    return 0.76 if letter.isupper() else 0.63
