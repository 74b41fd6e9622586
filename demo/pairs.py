"""``python demo/pairs.py RUN``: draw a stress test's findings, before and after, as one image."""

from __future__ import annotations

import argparse
import io
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from counterpose import Client, StressTest
from counterpose_core.contract.runs import Item
from counterpose_core.contract.scored import Scored

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "pairs.png"
SIDE, GAP, TEXT, MARGIN = 224, 12, 92, 20
MUTED, RIGHT, WRONG = "#57606a", "#1a7f37", "#cf222e"


@dataclass(frozen=True)
class Shown:
    """An image with the words below it: its caption, and the classifier's answer."""

    image: Image.Image
    caption: str
    answer: str
    right: bool


def pairs(run: StressTest, count: int) -> Iterator[tuple[Shown, Shown]]:
    """Yield an image before and after the change of each finding, one of each class.

    Of a finding's pairs the first that turns wrong: they begin with the median one.
    """
    items = {item.id: item for item in run.items()}
    seen: set[str] = set()
    for finding in run.findings():
        wrong = [each for each in finding.pairs if each.answer != finding.object_class]
        if finding.state == "breaks" and wrong and finding.object_class not in seen and len(seen) < count:
            seen.add(finding.object_class)
            yield pair(run, finding.classifier, items[wrong[0].edit])


def pair(run: StressTest, classifier: str, item: Item) -> tuple[Shown, Shown]:
    """Return an image before and after its edit, each with the classifier's answer."""
    result = item.result
    assert result is not None  # the pair of a finding passed the filters
    before = shown(run, item.source_image, result.caption, result.original_predictions[classifier], item)
    return before, shown(run, result.image, result.edited_caption or "", result.predictions[classifier], item)


def shown(run: StressTest, ref: str, caption: str, answer: Scored, item: Item) -> Shown:
    """Fetch an image, and write the classifier's first answer as text."""
    pixels = Image.open(io.BytesIO(run.image(ref))).convert("RGB")
    side = pixels.resize((SIDE, SIDE), Image.Resampling.NEAREST)
    return Shown(side, caption, f"{answer.answer} {answer.share:.0%}", answer.right)


def draw(rows: list[tuple[Shown, Shown]]) -> Image.Image:
    """Draw pairs side by side, caption and answer below each image."""
    width = len(rows) * (2 * SIDE + GAP) + (len(rows) - 1) * 3 * GAP + 2 * MARGIN
    canvas = Image.new("RGB", (width, SIDE + TEXT + 2 * MARGIN), "white")
    left = MARGIN
    for before, after in rows:
        for one in (before, after):
            canvas.paste(one.image, (left, MARGIN))
            write(ImageDraw.Draw(canvas), one, left)
            left += SIDE + GAP
        left += 2 * GAP
    return canvas


def write(pen: ImageDraw.ImageDraw, one: Shown, left: int) -> None:
    """Write an image's caption, on three lines at most, and its answer."""
    small, large = ImageFont.load_default(15), ImageFont.load_default(19)
    lines = textwrap.wrap(one.caption, 31)[:3]
    for number, line in enumerate(lines):
        pen.text((left, MARGIN + SIDE + 6 + 18 * number), line, fill=MUTED, font=small)
    pen.text((left, MARGIN + SIDE + 66), one.answer, fill=RIGHT if one.right else WRONG, font=large)


def main() -> None:
    """Draw the pairs of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a stress test that has ended")
    parser.add_argument("--count", type=int, default=2, help="pairs to draw")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with Client() as client:
        rows = list(pairs(client.stress_tests.get(arguments.run), arguments.count))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    draw(rows).save(arguments.out, optimize=True)


if __name__ == "__main__":
    main()
