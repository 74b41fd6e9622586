"""What severity says, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from counterpose_core.contract.severity import SeverityFigure
from counterpose_core.stress_test.severity.draw import Share
from counterpose_gateway.reports.numbers import counted


def severity_sentence(figure: SeverityFigure) -> str:
    """Say on how many images an operation makes a classifier fail, and where the stated loss is reached."""
    name, title = figure.classifier, figure.title
    if not figure.right:
        images = counted(figure.images, "image")
        return (
            f"{name}, {title}: right on none of {images} with nothing changed, so none has a failure point."
        )
    share, low, high = (
        round(100 * (getattr(figure.never, end) or 0.0)) for end in ("estimate", "low", "high")
    )
    of = f"{name}, {title}: of the {figure.right} images that are right with nothing changed, {share} %"
    # There is nothing between no change and an operation of one level.
    where = f"; {figure.loss_level}" if len(figure.levels) > 1 else ""
    return f"{of} ({low} to {high}) fail at no level{where}."


def change_sentence(first: str, second: str, words: str) -> str:
    """Say that the order of two classifiers is turned round."""
    return f"{first} is more accurate than {second} with nothing changed, and less once the image {words}."


def plan_sentence(shares: Mapping[Share, int], used: int, of_grid: int, in_full: int) -> str:
    """Say what the levels took."""
    percent = round(100 * used / of_grid) if of_grid else 0
    took = f"{used:,} classifications at levels, {percent} % of every level of every image"
    if not shares:
        return f"Severity: {took}."
    full, screened, tested = (shares.get(each, 0) for each in get_args(Share))
    whole = (
        f"; {in_full} of the operations and classifiers in full, as images did not follow the order of levels"
    )
    return (
        f"Severity: every level of {counted(full, 'independent image')}, bisection of {screened + tested}, "
        f"claims tested on {tested}: {took}{whole if in_full else ''}."
    )
