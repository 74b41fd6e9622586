"""The page about adversarial datasets: who else fails on the images that fool one classifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpose_core.contract.realism import RealismRow
from counterpose_core.types import Estimate
from evaluation.evidence.heat_map import heat_map
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS
from evaluation.transfers.report import DatasetReport, SharedRate, TransferReport
from evaluation.transfers.roster import Relation

TRANSFERS = RESULTS / "transfers.json"
MAP = "transfers-1.svg"
RELATIONS: dict[Relation, str] = {
    "chosen": "the classifier itself, whose failures chose the images",
    "reseeded": "its copy from another seed, trained on the same images",
    "same-architecture": "the same network, taught other bugs or none",
    "other-architecture": "another network, taught other bugs",
}
SHORT: dict[Relation, str] = {
    "reseeded": "its copy from another seed",
    "same-architecture": "the same network with other lessons",
    "other-architecture": "other networks",
}
SHARED = ("shown to", "fails on", "n", "pairs", "on unchosen images")
CONTRASTS = ("images fool", "the copy fails more often than", "which is", "by", "captions", "images")
DATASETS = (
    "fools", "seeds that fool it", "captions", "images made", "kept",
    "left out by filters, of those that fool", "fails on the kept, by choice",
    "on unchosen images of the captions", "on labels alone",
)  # fmt: skip
DISTANCES = ("images", "n", "kernel distance", "Fréchet distance, corrected", "as it is")
CELLS = (
    "images fool", "shown to", "network", "is", "fails on", "n", "captions", "unanswered", "on labels alone",
    "p", "on unchosen images", "n",
)  # fmt: skip


def read_transfers(file: Path = TRANSFERS) -> TransferReport:
    """Read the result file."""
    return TransferReport.model_validate_json(file.read_bytes())


def transfers_map(made: TransferReport) -> str:
    """Draw the matrix of failure rates."""
    rows = [each.source for each in made.datasets]
    rates = {(cell.row, _short(cell.column)): cell.rate for cell in made.cells}
    chosen = frozenset((row, row) for row in rows)
    columns = [_short(each) for each in made.setting.columns]
    return heat_map("Failure rates on images that fool another classifier", rows, columns, rates, chosen)


def transfers_page(made: TransferReport) -> str:
    """Write the page."""
    body = [
        f"![Rows: whom the images fool. Columns: who is shown them.]({MAP})", "",
        "A broken frame marks rates that say nothing: the images were chosen by these failures.", "",
        *table(SHARED, map(_relation, made.relations)), "",
        *_copy(made),
        "## The datasets", "",
        *table(DATASETS, map(_dataset, made.datasets)), "",
        *table(("fools", "what became of an image of a caption", "images"), _dropped(made)), "",
        "## The matrix", "",
        *table(CELLS, _cells(made)), "",
        "## Distances from usual scenes", "",
        *table(DISTANCES, _distances(made)), "",
        "## The classifiers", "",
        *table(("classifier", "fails on wild scenes", "n"), _failures(made)),
    ]  # fmt: skip
    return page("Whom adversarial datasets fool", finding(made), body, _how(made))


def finding(made: TransferReport) -> str:
    """Say how often copies and others fail on what fools one classifier."""
    others = [each for each in made.relations if each.relation in SHORT and each.rate.n]
    told = ", ".join(f"{SHORT[each.relation]} on {_rate(each.rate)}" for each in others)
    kept = sum(each.kept for each in made.datasets)
    return f"Of {kept:,} images that fool one of {len(made.datasets)} classifiers, others fail, too: {told}."


def _rate(estimate: Estimate) -> str:
    return f"{figure(estimate, 2)} (n = {size(estimate)})"


def _relation(shared: SharedRate) -> list[str]:
    unchosen = [f"{min(shared.unchosen):.2f} to {max(shared.unchosen):.2f}"] if shared.unchosen else [NONE]
    return [RELATIONS[shared.relation], *cells(shared.rate, 2), str(shared.cells), *unchosen]


def _copy(made: TransferReport) -> list[str]:
    if not made.contrasts:
        return []
    head = ["## The copy against others, image by image", ""]
    return [*head, *table(CONTRASTS, _contrasts(made)), ""]


def _contrasts(made: TransferReport) -> Iterator[list[str]]:
    for each in made.contrasts:
        about = RELATIONS[each.relation]
        yield [each.row, _short(each.other), about, *cells(each.difference, 2), f"{each.images:,}"]


def _dataset(each: DatasetReport) -> list[str]:
    seeds = f"{figure(each.seeds_that_fool)}, n = {size(each.seeds_that_fool)}"
    captions = f"{each.captions} (of any seed)" if each.any_seed else str(each.captions)
    return [
        each.source, seeds, captions, f"{each.made:,}", f"{each.kept:,}",
        *(_with_n(rate) for rate in (each.left_out, each.by_choice, each.unchosen, each.alone)),
    ]  # fmt: skip


def _with_n(rate: Estimate) -> str:
    return f"{figure(rate, 2)}, n = {size(rate)}"


def _dropped(made: TransferReport) -> Iterator[list[str]]:
    for each in made.datasets:
        for reason, number in {"kept": each.kept, **each.dropped}.items():
            yield [each.source, reason, f"{number:,}"]


def _cells(made: TransferReport) -> Iterator[list[str]]:
    for cell in made.cells:
        numbers = (*cells(cell.rate, 2), str(cell.captions), str(cell.unanswered), figure(cell.alone, 2))
        p = NONE if cell.p is None else f"{cell.p:.2g}"
        about = cell.relation.replace("-", " ")
        yield [cell.row, _short(cell.column), cell.architecture, about, *numbers, p, *cells(cell.unchosen, 2)]


def _distances(made: TransferReport) -> Iterator[list[str]]:
    found = made.distances
    if found is None:
        return
    halves = f"two halves of {found.n_originals:,} usual scenes"
    for name, row in {halves: found.floor, **found.rows}.items():
        yield [name, f"{row.n_images:,}", _number(row.kernel), *_frechet(row)]


def _frechet(row: RealismRow) -> tuple[str, str]:
    if row.frechet is None:
        return row.no_frechet, NONE
    return _number(row.frechet_corrected), f"{row.frechet:.1f}"


def _number(estimate: Estimate | None) -> str:
    return NONE if estimate is None else figure(estimate, 2)


def _failures(made: TransferReport) -> Iterator[list[str]]:
    for name, rate in made.setting.wild_failures.items():
        yield [_short(name), *cells(rate)]


def _short(column: str) -> str:
    return column.removeprefix("local:")


def _options(request: dict[str, Any]) -> str:
    names = {"captions": "captions", "samples": "samples", "kept": "most_kept", "images": "images",
             "baseline": "baseline", "steps": "steps"}  # fmt: skip
    return " ".join(f"--{option} {request[name]}" for option, name in names.items())


def _how(made: TransferReport) -> list[str]:
    setting, request = made.setting, made.setting.request
    return [
        f"- `make validate-transfers` (here `python -m evaluation.transfers {_options(request)}`):"
        f" {setting.seeds:,} wild scenes, the captions of those that fool a"
        f" classifier, at most {request['captions']} captions, {request['samples']} images of each and"
        f" {request['most_kept']} kept of each ({request['steps']} denoising steps, seed {request['seed']}).",
        "",
        "Wild scenes are rendered with every combination of class and circumstance, as ImageNet-A is to",
        "ImageNet; usual ones as the dataset draws them. The suite's four classifiers have different",
        "planted bugs, one has none. The copy of the leaning ResNet has its images and wrong labels, and",
        "other initial weights and batches. The same network with other lessons tells what the architecture",
        "alone does. Wiles et al. compare with other networks that saw the same data or more: here each",
        "other network was also taught other bugs, so that its rate is no effect of the architecture alone.",
        "",
        "A failure is a wrong first answer. Intervals resample captions, since images of one caption are",
        "alike. The p is exact, against images of the labels alone, by Holm's method over a row. The dataset",
        "of a classifier was chosen by its failures, so its own rate on it is 1 whatever it does on other",
        "images. Unchosen images are the first sixteen of each caption, all of them: the captions were",
        "chosen by failures on other images, so that this rate is of these captions alone. A classifier that",
        "mistakes no wild scene has captions of scenes that it answers rightly. Fréchet distances need 640",
        "images in each set; kernel distances have intervals by a jackknife.",
        "[How datasets and transfers are made](../methods/transfers.md).",
    ]
