"""`results/transfers.json`: datasets that fool each classifier, and who else fails on them."""

from __future__ import annotations

from typing import Any

from counterpose_core.contract.realism import RealismSummary
from counterpose_core.types import Estimate
from evaluation.validity.report import Part

from .roster import Relation


class DatasetReport(Part):
    """One classifier's adversarial dataset.

    ``seeds_that_fool``: of the wild scenes that were looked at. ``any_seed``: its captions are of seeds that
    it answers rightly, too, since it mistakes none. ``made``: images of its captions; ``kept`` of these are
    the dataset. ``kept_share``: of those that were made. ``left_out``: of those that fool it, the share that
    a filter left out; ``dropped`` says why each image is not kept. ``by_choice``: its failure rate on the
    dataset, which chose its images; ``unchosen``: its rate on images of the same captions that no failure has
    chosen, by resampled captions; ``curse``: the one less the other. ``alone``: its rate on images of the
    labels alone.
    """

    source: str
    seeds_that_fool: Estimate
    any_seed: bool
    seeds_dropped: dict[str, int]
    captions: int
    captions_left_out: dict[str, int]
    made: int
    kept: int
    kept_share: Estimate
    left_out: Estimate
    dropped: dict[str, int]
    by_choice: Estimate
    unchosen: Estimate
    curse: float | None
    alone: Estimate


class CellReport(Part):
    """How often a classifier fails on the dataset of another.

    ``rate``: on the dataset's images, by resampled captions; ``images`` are answered, ``unanswered`` are not.
    ``alone``: on images of the labels alone, weighed as in the dataset. ``p``: exact, one-sided, against
    these, by Holm's method over the row; null where images were chosen by this classifier. ``unchosen``: on
    images of the same captions that no failure has chosen.
    """

    row: str
    column: str
    architecture: str
    relation: Relation
    failures: int
    captions: int
    rate: Estimate
    unanswered: int
    alone: Estimate
    p: float | None
    unchosen: Estimate


class Contrast(Part):
    """The copy's failure rate less another's on the same images, by resampled captions; n counts captions."""

    row: str
    copy_of_source: str
    other: str
    relation: Relation
    difference: Estimate
    images: int


class SharedRate(Part):
    """The rates of all cells of one relation, over all datasets; n counts images, captions are resampled."""

    relation: Relation
    cells: int
    rate: Estimate
    unchosen: list[float]


class Setting(Part):
    """What was run. ``wild_failures``: of each classifier on the wild scenes, rendered."""

    request: dict[str, Any]
    suite: str
    seeds: int
    real_images: int
    columns: list[str]
    wild_failures: dict[str, Estimate]


class TransferReport(Part):
    """The result file. ``distances``: of each set of images from usual scenes, in CLIP's features;
    null as long as the first classifier's dataset is not made.
    """

    setting: Setting
    datasets: list[DatasetReport]
    cells: list[CellReport]
    contrasts: list[Contrast]
    relations: list[SharedRate]
    distances: RealismSummary | None
