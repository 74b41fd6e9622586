"""The page about dataset interfaces compared with rendered truth, by token and by class name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.interface_validity.report import ImpactFigures, InterfaceValidity
from evaluation.paths import RESULTS

RESULT = RESULTS / "interface-validity.json"
TOKEN, NAME = "token", "class-name"


def interfaces_page(file: Path = RESULT) -> str:
    """Write the page."""
    found = InterfaceValidity.model_validate_json(file.read_bytes())
    worst = found.confounding.mismatched
    finding = (
        "Where classes look unlike their names, accuracies under shifts are off by"
        f" {figure(worst.token_error)} by learned tokens and {figure(worst.class_name_error)} by class names"
        f" (n = {size(worst.token_error)} and {size(worst.class_name_error)} cells)."
    )
    shift_header = (
        "shift",
        "rendered",
        "by token",
        "contains the truth",
        "by class name",
        "contains the truth",
    )
    body = [
        *table(("figure", "by token", "n", "by class name", "n"), _figures(found)), "",
        "## Impact of each shift", "",
        *table(shift_header, _shifts(found)), "",
        "## Error of accuracies, class by class", "",
        *table(("class", "looks like its name", "by token", "n", "by class name", "n"), _classes(found)), "",
        "## Aims", "",
        *table(("aim", "target", "reached", "met"), _aims(found)), "",
        *_fine_grained(found),
        "## Cost", "",
        *table(("unit", "UNet evaluations", "seconds", "n"), _costs(found)), "",
        *_batching(found),
    ]  # fmt: skip
    seeds = ",".join(map(str, found.seeds))
    how = [
        f"- `make validate-interface SEEDS={seeds}`: stretches {seeds} of the validation seeds,"
        f" {len(found.classes)} classes of which {len(found.mismatched)} look unlike their names"
        f" ({', '.join(found.mismatched)}), {len(found.shifts)} shifts, {len(found.models)} classifiers",
        "",
        "Figures are of the images that the product's filter keeps, unless they say otherwise. An interval",
        "of an impact covers other seeds of the generator, not the difference between it and a camera.",
        "[How tokens are learned and chosen](../design/tokens.md).",
    ]
    return page("Dataset interfaces compared with rendered truth", finding, body, how)


def _figures(found: InterfaceValidity) -> Iterator[list[str]]:
    errors = (
        (
            "error of accuracies, classes that look unlike their names",
            found.confounding.mismatched,
        ),
        ("the same, classes that look like their names", found.confounding.matched),
        ("the same, all classes", found.confounding.all),
        ("the same, all classes, without the filter", found.unfiltered.all),
    )
    for title, error in errors:
        yield [title, *cells(error.token_error), *cells(error.class_name_error)]
    token, name = found.image_sources.token, found.image_sources.class_name
    yield ["shift shown, by the oracle", *cells(token.shift_presence), *cells(name.shift_presence)]
    yield ["class right, by the oracle", *cells(token.class_accuracy), *cells(name.class_accuracy)]
    yield [
        "kernel distance of base images to real ones",
        *cells(token.kernel_distance),
        *cells(name.kernel_distance),
    ]
    yield from _impacts(found.impact[TOKEN], found.impact[NAME])
    token_filter, name_filter = found.filter[TOKEN], found.filter[NAME]
    yield ["precision of the filter", *cells(token_filter.precision), *cells(name_filter.precision)]
    yield ["recall of the filter", *cells(token_filter.recall), *cells(name_filter.recall)]


def _impacts(token: ImpactFigures, name: ImpactFigures) -> Iterator[list[str]]:
    titles = {
        "rank_correlation": "rank correlation of impacts with rendered ones",
        "drop_rank_correlation": "rank correlation of single classifiers' drops with rendered ones",
        "mean_absolute_error": "mean absolute error of an impact",
        "coverage": "95 % intervals of impacts that contain the truth",
        "slope_error": "error of a slope",
        "slope_coverage": "95 % intervals of slopes that contain the truth",
    }
    for field, title in titles.items():
        pair: list[Estimate] = [getattr(one, field) for one in (token, name)]
        yield [title, *cells(pair[0]), *cells(pair[1])]


def _shifts(found: InterfaceValidity) -> Iterator[list[str]]:
    for token, name in zip(found.impact[TOKEN].shifts, found.impact[NAME].shifts, strict=True):
        yield [
            token.shift, figure(token.true_impact), figure(token.impact), _yes(token.impact_held),
            figure(name.impact), _yes(name.impact_held),
        ]  # fmt: skip


def _classes(found: InterfaceValidity) -> Iterator[list[str]]:
    for name, error in found.confounding.by_class.items():
        alike = "no" if name in found.mismatched else "yes"
        yield [name, alike, *cells(error.token_error), *cells(error.class_name_error)]


def _aims(found: InterfaceValidity) -> Iterator[list[str]]:
    for aim in found.aims:
        yield [aim.name, aim.aim, aim.reached, _yes(aim.met)]


def _fine_grained(found: InterfaceValidity) -> list[str]:
    if found.fine_grained is None:
        return []
    fine = found.fine_grained
    image_sources = (
        ("token", fine.token),
        ('the word "bus"', fine.shared_word),
        ("a description", fine.description),
    )
    rows = ([title, *cells(one.code), figure(one.kind), figure(one.colour)] for title, one in image_sources)
    return [
        '## Six kinds of bus under code names, learned from the word "bus"', "",
        *table(("drawn by", "shows the code's own bus", "n", "right kind", "right colour"), rows), "",
    ]  # fmt: skip


def _costs(found: InterfaceValidity) -> Iterator[list[str]]:
    cost = found.cost
    units = {
        "a token": cost.token,
        "an image by token": cost.image[TOKEN],
        "an image by class name": cost.image[NAME],
        "a kept image by token": cost.kept_image[TOKEN],
        "a kept image by class name": cost.kept_image[NAME],
    }
    for title, one in units.items():
        yield [title, figure(one.unet_evaluations, 0), figure(one.seconds, 2), size(one.seconds)]


def _batching(found: InterfaceValidity) -> list[str]:
    one = found.batching
    rows = [
        ["eight classes learned at once, one sample a class and step", *cells(one.tokens, 2)],
        ["the same at the preset's number of samples", *cells(one.tokens_by_preset, 2)],
        ["16 images generated at once", *cells(one.generation, 2)],
    ]
    return table(("batch", "times as fast as one by one", "rounds"), rows)


def _yes(met: bool | None) -> str:
    return {None: NONE, True: "yes", False: "**no**"}[met]
