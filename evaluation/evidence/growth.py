"""Drawings of figures that grow with size: lines on two logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from evaluation.load.report import Growth

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 16, 44
COLOURS = ("#0b6fb8", "#c2571a", "#3d8b37", "#8a4fb0", "#a3860f", "#c03a6b")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.grid{stroke:#8884}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}}"
)

Point = tuple[float, float]


def drawing(lines: Sequence[Growth]) -> str:
    """Return the SVG of lines that share their unit and their size; the smallest power of ten frames them.

    Raises:
        ValueError: a line has no point, or one that is not above 0, which no logarithmic axis can show.
    """
    points = [point for line in lines for point in line.points]
    if not points or min(min(point) for point in points) <= 0:
        raise ValueError(f"a logarithmic axis cannot show {[line.name for line in lines]}")
    across, up = (_decades([point[axis] for point in points]) for axis in (0, 1))
    body = [*_grid(across, up), *_titles(lines[0])]
    for number, line in enumerate(lines):
        body += _line(number, line, across, up)
    title = f"<title>{escape(lines[0].unit)} by {escape(lines[0].size)}</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return "\n".join([head, title, f"<style>{STYLE}</style>", *body, "</svg>"]) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _across(value: float, decades: tuple[int, int]) -> float:
    share = (math.log10(value) - decades[0]) / (decades[1] - decades[0])
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _up(value: float, decades: tuple[int, int]) -> float:
    share = (math.log10(value) - decades[0]) / (decades[1] - decades[0])
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _grid(across: tuple[int, int], up: tuple[int, int]) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for power in range(across[0], across[1] + 1):
        x = _across(10.0**power, across)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{_tick(power)}</text>'
    for power in range(up[0], up[1] + 1):
        y = _up(10.0**power, up)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{_tick(power)}</text>'


def _tick(power: int) -> str:
    return f"{10.0**power:,.0f}" if power >= 0 else f"{10.0**power:g}"


def _titles(line: Growth) -> Iterator[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(line.size)}</text>'
    yield f'<text x="8" y="12">{escape(line.unit)}</text>'


def _line(number: int, line: Growth, across: tuple[int, int], up: tuple[int, int]) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    places = [(_across(size, across), _up(value, up)) for size, value in sorted(line.points)]
    joined = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for (x, y), (size, value) in zip(places, sorted(line.points), strict=True):
        shown = f"{escape(line.name)}: {value:.3g} {escape(line.unit)} at {size:,g} {escape(line.size)}"
        yield f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"><title>{shown}</title></circle>'
    y = TOP + 14 + 18 * number
    yield f'<rect x="{WIDTH - RIGHT + 16}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
    yield f'<text x="{WIDTH - RIGHT + 32}" y="{y}">{escape(line.name)}</text>'
