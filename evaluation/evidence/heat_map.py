"""A matrix of rates as SVG: one shaded cell for each row and column, its rate written in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from counterpose_core.types import Estimate

LEFT, TOP, WIDTH, HEIGHT = 150, 44, 104, 44
COLOUR = "#c2571a"
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.n{font-size:10px}.dark{fill:#fff}"
    ".chosen{stroke:#444;stroke-width:2;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}.dark{fill:#fff}.chosen{stroke:#bbb}}"
)
_DARK = 0.6
"""Rates from which text is white."""


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    rates: Mapping[tuple[str, str], Estimate],
    chosen: frozenset[tuple[str, str]],
) -> str:
    """Return the SVG; a cell without a rate is empty, and those that were ``chosen`` have a broken frame."""
    width, height = LEFT + WIDTH * len(columns) + 8, TOP + HEIGHT * len(rows) + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    body = [f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *_heads(rows, columns)]
    for at, row in enumerate(rows):
        for place, column in enumerate(columns):
            rate = rates.get((row, column))
            body += _cell(LEFT + WIDTH * place, TOP + HEIGHT * at, f"{row}, {column}", rate,
                          is_chosen=(row, column) in chosen)  # fmt: skip
    return "\n".join([head, *body, "</svg>"]) + "\n"


def _heads(rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    for at, row in enumerate(rows):
        y = TOP + HEIGHT * at + HEIGHT // 2 + 4
        yield f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{escape(row)}</text>'
    for place, column in enumerate(columns):
        x = LEFT + WIDTH * place + WIDTH // 2
        for line, words in enumerate(_lines(column)):
            yield f'<text x="{x}" y="{16 + 15 * line}" text-anchor="middle">{escape(words)}</text>'


def _lines(name: str) -> list[str]:
    """A name in two lines, split at the hyphen nearest to its middle."""
    places = [at for at, letter in enumerate(name) if letter == "-"]
    if len(name) * 7 <= WIDTH or not places:
        return [name]
    middle = min(places, key=lambda at: abs(at - len(name) / 2))
    return [name[:middle], name[middle + 1 :]]


def _cell(x: int, y: int, name: str, rate: Estimate | None, *, is_chosen: bool) -> Iterator[str]:
    value = None if rate is None else rate.estimate
    opacity = 0.0 if value is None else round(0.05 + 0.9 * value, 2)
    frame = ' class="chosen"' if is_chosen else ""
    box = f'x="{x + 2}" y="{y + 2}" width="{WIDTH - 4}" height="{HEIGHT - 4}" rx="4"'
    shade = f'fill="{COLOUR}" fill-opacity="{opacity}"{frame}'
    yield f"<rect {box} {shade}><title>{_told(name, rate)}</title></rect>"
    if rate is None or value is None:
        return
    dark, middle = " dark" if value >= _DARK else "", x + WIDTH // 2
    yield f'<text class="rate{dark}" x="{middle}" y="{y + 21}" text-anchor="middle">{value:.2f}</text>'
    if rate.low is not None and rate.high is not None:
        ends = f"{rate.low:.2f} to {rate.high:.2f}"
        yield f'<text class="n{dark}" x="{middle}" y="{y + 34}" text-anchor="middle">{ends}</text>'


def _told(name: str, rate: Estimate | None) -> str:
    if rate is None or rate.estimate is None:
        return escape(f"{name}: no images")
    return escape(f"{name}: {rate.estimate:.3f}, n = {rate.n:,}")
