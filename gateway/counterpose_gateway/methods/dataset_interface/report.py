"""The report of a dataset interface: each class's token, and whether its images look like the class."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary, TokenItem, TokenResult
from counterpose_core.contract.runs import Run
from counterpose_core.errors import CounterposeError
from counterpose_core.types import BlobRef, Estimate
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album, Inline
from counterpose_gateway.reports.plots import Plot, Scale, fitted_axis, plot
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.reports.text import truncate_list

SHOWN_CLASSES = 100
"""Classes shown with images and a curve; the table lists all of them."""

_SHOWN_IMAGES = 6
_THUMBNAIL = 160
_CURVE = (300.0, 90.0)
_PLOTTED = 30
_WORST_FIRST = (*BADGES, None)


@dataclass(frozen=True)
class Curve:
    """A loss curve as points of an SVG polyline, with its first and last value."""

    width: float
    height: float
    points: str
    first: float
    last: float


@dataclass(frozen=True)
class ShownClass:
    """One learned class: its curve, and its real images, and those generated from token and plain name."""

    name: str
    token: TokenResult
    curve: Curve | None
    rows: dict[str, list[Inline | None]]


def render(
    summary: DatasetInterfaceSummary, run: Run, items: Iterable[TokenItem], image: Callable[[str], bytes]
) -> str:
    """Write the report; ``image`` returns the bytes of an image, or of a list of them, by its reference."""
    album = Album(image, longest=_THUMBNAIL)
    # What does not look like the data comes first.
    shown = sorted(summary.tokens.items(), key=lambda named: _WORST_FIRST.index(named[1].state))
    shown = shown[:SHOWN_CLASSES]
    ids = {item.label: item.id for item in items}
    context = {
        "summary": summary,
        "run": run,
        "headline": headline(summary),
        "similarities": _by_class(
            summary,
            {
                "token": lambda token: token.object_similarity,
                "class name": lambda token: token.name_similarity,
                "real images": lambda token: token.real_similarity,
            },
        ),
        "resemblances": _by_class(
            summary,
            {"token": lambda token: token.resemblance, "class name": lambda token: token.name_resemblance},
        ),
        "shown": [
            ShownClass(
                name,
                token,
                loss_curve(token.losses),
                _rows(token, _real(summary.config.images.get(name), image), album, run.id, ids.get(name, "")),
            )
            for name, token in shown
        ],
    }
    return TEMPLATES.get_template("dataset_interface/report.html.j2").render(context, images=album.images)


def headline(summary: DatasetInterfaceSummary) -> str:
    """The interface in one sentence: whose token draws images closer to the dataset than the class name."""
    of = len(summary.config.classes) + len(summary.config.without_images)
    known = [name for name, token in summary.tokens.items() if token.state is not None]
    if not known:
        return f"{len(summary.tokens)} of {of} classes learned."
    by_state = {state: [name for name in known if summary.tokens[name].state == state] for state in BADGES}
    holds, breaks, open_still = by_state["holds"], by_state["breaks"], by_state["cannot-tell"]
    said = [f"{len(holds)} of {len(known)} classes look more like your data by token than by name"]
    if breaks:
        said.append(f"{truncate_list(breaks)} {'looks' if len(breaks) == 1 else 'look'} less like it")
    if open_still:
        said.append(f"of {truncate_list(open_still)} it cannot be told")
    return "; ".join(said) + "."


def loss_curve(losses: Sequence[float]) -> Curve | None:
    """Lay a loss curve out from left to right; None with fewer than two values."""
    if len(losses) < 2:
        return None
    width, height = _CURVE
    low, high = min(losses), max(losses)
    across = Scale(0, len(losses) - 1, 2.0, width - 2.0)
    up = Scale(low, high if high > low else low + 1.0, height - 4.0, 4.0)
    points = " ".join(f"{across.place(step)},{up.place(loss)}" for step, loss in enumerate(losses))
    return Curve(width, height, points, losses[0], losses[-1])


def _by_class(
    summary: DatasetInterfaceSummary, figures: Mapping[str, Callable[[TokenResult], Estimate | None]]
) -> Plot | None:
    """A plot of some figures for the first classes; None where they were not measured."""
    groups = {
        name: {title: estimate for title, of in figures.items() if (estimate := of(token)) is not None}
        for name, token in list(summary.tokens.items())[:_PLOTTED]
    }
    known = [
        estimate for group in groups.values() for estimate in group.values() if estimate.estimate is not None
    ]
    if not known:
        return None
    return plot(groups, fitted_axis(known, around=known[0].estimate or 0.0, least=0.05))


def _rows(
    token: TokenResult, real: Sequence[BlobRef], album: Album, run: str, item: str
) -> dict[str, list[Inline | None]]:
    def generated(refs: Sequence[BlobRef]) -> list[Inline | None]:
        return [
            album.generated(ref, run=run, item=item, source_type=GENERATED_SOURCE_TYPE)
            for ref in refs[:_SHOWN_IMAGES]
        ]

    rows = {
        "your images": [album.original(ref) for ref in real[:_SHOWN_IMAGES]],
        "by token": generated(token.token_images),
        "by name": generated(token.name_images),
    }
    return {title: found for title, found in rows.items() if found}


def _real(listed: BlobRef | None, read: Callable[[str], bytes]) -> list[BlobRef]:
    """The class's own images; empty where their list is missing, so that the report is still written."""
    if listed is None:
        return []
    try:
        listed_refs = json.loads(read(listed))
    except (CounterposeError, ValueError):
        return []
    return [ref for ref in listed_refs if isinstance(ref, str)] if isinstance(listed_refs, list) else []
