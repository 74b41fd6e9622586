"""How many more images of each caption are drawn: in rounds that double, until enough of them are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_ROUND = 16
"""Images of each caption in the first round, which alone say how often captions fail: later ones depend on
what failed before."""


@dataclass(frozen=True)
class CaptionProgress:
    """How many images of a caption were made, and how many of them are kept."""

    made: int
    kept: int


def next_round(
    captions: Sequence[CaptionProgress], *, samples: int, most_kept: int, images: int
) -> list[int]:
    """Return how many more images each caption gets; nothing once all have enough or none are left.

    A caption is done when ``most_kept`` of its images are kept or ``samples`` are made. Each round doubles
    what was made, so that a caption that rarely fails costs few rounds. If the images that are left do not
    suffice, they are shared evenly.

    Args:
        captions: the captions in order.
        samples: most images of one caption.
        most_kept: how many failures of one caption are enough.
        images: how many images are left in all.
    """
    wanted = [_wanted(each, samples, most_kept) for each in captions]
    open_captions = sum(each > 0 for each in wanted)
    if sum(wanted) <= images or not open_captions:
        return wanted
    share, over = divmod(max(images, 0), open_captions)
    sizes: list[int] = []
    for each in wanted:
        size = min(each, share + (over > 0)) if each else 0
        over -= each > 0 and over > 0
        sizes.append(size)
    return sizes


def _wanted(caption: CaptionProgress, samples: int, most_kept: int) -> int:
    if caption.kept >= most_kept:
        return 0
    return min(max(caption.made, FIRST_ROUND), samples - caption.made)
