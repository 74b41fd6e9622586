"""A labelled grid of images: `python -m counterpose_miniature.world.contact_sheet OUT.png`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from PIL import Image, ImageDraw

from counterpose_miniature.world.renderer import IMAGE_SIDE, render
from counterpose_miniature.world.sampling import UNIFORM
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for

_LABEL = 14


def contact_sheet(
    rows: Sequence[Sequence[tuple[str, Scene]]], *, zoom: int = 2, blurred_to: int | None = None
) -> Image.Image:
    """Draw labelled scenes; `blurred_to` first shrinks each image to that many pixels per side."""
    side = IMAGE_SIDE * zoom
    sheet = Image.new("RGB", (side * max(map(len, rows)), (side + _LABEL) * len(rows)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, row in enumerate(rows):
        for j, (label, scene) in enumerate(row):
            image = Image.fromarray(render(scene))
            if blurred_to:
                image = image.resize((blurred_to, blurred_to), Image.Resampling.BOX)
            image = image.resize((side, side), Image.Resampling.BICUBIC)
            sheet.paste(image, (j * side, i * (side + _LABEL) + _LABEL))
            draw.text((j * side + 2, i * (side + _LABEL) + 1), label, fill="black")
    return sheet


def catalogue() -> list[list[tuple[str, Scene]]]:
    """Return scenes that show every value of every attribute, and some random ones."""
    return [*_classes(), *_single_changes(), *_drawn(5)]


def _classes() -> list[list[tuple[str, Scene]]]:
    rows = []
    for row, (kind, turn) in enumerate(product(VALUES["kind"], (0, 1))):
        cells = []
        for column, name in enumerate(VALUES["object_class"]):
            colour = VALUES["colour"][(column + 2 * turn + row // 2) % 5]
            ground = VALUES["background"][(column + 3 * turn) % 6]
            seed = DEVELOPMENT.seed(8 * turn + column)
            scene = Scene(name, kind, colour, ground, "clear", "photo", "none", nuisance=seed)
            cells.append((f"{kind} {colour} {name}", scene))
        rows.append(cells)
    return rows


def _single_changes() -> list[list[tuple[str, Scene]]]:
    cells = []
    for attribute in ("colour", "background", "weather", "style", "companion"):
        name = "tram" if attribute == "companion" else "bee"
        base = Scene(name, "plain", "red", "grass", "clear", "photo", "none", nuisance=DEVELOPMENT.seed(40))
        cells += [(value, base.changed(attribute, value)) for value in VALUES[attribute]]
    return [cells[start : start + 8] for start in range(0, len(cells), 8)]


def _drawn(count: int) -> list[list[tuple[str, Scene]]]:
    scenes = [scene_for(DEVELOPMENT, index, UNIFORM) for index in range(8 * count)]
    cells = [(" ".join((s.object_class, s.kind[0], s.colour, s.weather[:3], s.companion)), s) for s in scenes]
    return [cells[start : start + 8] for start in range(0, len(cells), 8)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sheet named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--blurred-to", type=int, default=None, help="side in pixels to shrink to first")
    options = parser.parse_args(arguments)
    contact_sheet(catalogue(), blurred_to=options.blurred_to).save(options.out)


if __name__ == "__main__":
    main()
