"""The page of a dataset interface: what was learned of each class, and whether pictures look like it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary, TokenItem, TokenResult
from faultline_core.contract.runs import Run
from faultline_core.errors import FaultlineError
from faultline_core.types import BlobRef, Estimate
from faultline_gateway.marks import GENERATED_SOURCE_TYPE
from faultline_gateway.reports.environment import TEMPLATES
from faultline_gateway.reports.pictures import Album, Inline
from faultline_gateway.reports.plots import Plot, fitted_axis, plot
from faultline_gateway.reports.scatter import Scale

SHOWN_CLASSES = 100
"""Classes with pictures and a curve; the table holds them all."""

_SHOWN_PICTURES = 6
_THUMBNAIL = 160
_CURVE = (300.0, 90.0)
_PLOTTED = 30


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
    """One learned class: its curve, and real pictures beside those by token and by plain name."""

    name: str
    token: TokenResult
    curve: Curve | None
    rows: dict[str, list[Inline | None]]


def render_interface(
    summary: DatasetInterfaceSummary,
    run: Run,
    items: Sequence[TokenItem],
    picture: Callable[[str], bytes],
) -> str:
    """Write the page; ``picture`` returns the bytes of a picture, or of a list of them, by its reference."""
    album = Album(picture, longest=_THUMBNAIL)
    ids = {item.label: item.id for item in items}
    shown = list(summary.tokens.items())[:SHOWN_CLASSES]
    context = {
        "summary": summary,
        "run": run,
        "similarities": _by_class(
            summary,
            {
                "token": lambda token: token.object_similarity,
                "class name": lambda token: token.name_similarity,
                "real pictures": lambda token: token.real_similarity,
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
                _rows(
                    token, _real(summary.config.pictures.get(name), picture), album, run.id, ids.get(name, "")
                ),
            )
            for name, token in shown
        ],
        "config": json.dumps(
            summary.config.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False
        ),
    }
    return TEMPLATES.get_template("dataset_interface.html.j2").render(context)


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
    """A plot of some figures by class, the first classes; None where nobody took them."""
    groups = {
        name: {title: found for title, of in figures.items() if (found := of(token)) is not None}
        for name, token in list(summary.tokens.items())[:_PLOTTED]
    }
    known = [found for group in groups.values() for found in group.values() if found.estimate is not None]
    if not known:
        return None
    return plot(groups, fitted_axis(known, around=known[0].estimate or 0.0, least=0.05))


def _rows(
    token: TokenResult, real: Sequence[BlobRef], album: Album, run: str, item: str
) -> dict[str, list[Inline | None]]:
    def generated(refs: Sequence[BlobRef]) -> list[Inline | None]:
        return [
            album.generated(ref, run=run, item=item, source_type=GENERATED_SOURCE_TYPE)
            for ref in refs[:_SHOWN_PICTURES]
        ]

    rows = {
        "real": [album.original(ref) for ref in real[:_SHOWN_PICTURES]],
        "by token": generated(token.pictures),
        "by name": generated(token.name_pictures),
    }
    return {title: found for title, found in rows.items() if found}


def _real(listed: BlobRef | None, read: Callable[[str], bytes]) -> list[BlobRef]:
    """The class's own pictures; none where their list is gone, which must not cost the page."""
    if listed is None:
        return []
    try:
        found = json.loads(read(listed))
    except (FaultlineError, ValueError):
        return []
    return [ref for ref in found if isinstance(ref, str)] if isinstance(found, list) else []
