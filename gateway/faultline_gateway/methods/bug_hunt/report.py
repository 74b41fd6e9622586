"""The report of a bug hunt: the bugs with their images, then every rate with its interval and n."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from faultline_core.contract.bug_hunt_summary import Bug, BugHuntSummary
from faultline_core.contract.runs import Run
from faultline_gateway.images.png import GENERATED_SOURCE_TYPE
from faultline_gateway.reports.environment import TEMPLATES
from faultline_gateway.reports.images import Album, Inline
from faultline_gateway.reports.states import BADGES

_THUMBNAIL = 160


@dataclass(frozen=True)
class ShownBug:
    """A bug, and the images that it is shown by, each with the classifier's answer."""

    bug: Bug
    images: list[tuple[str, Inline | None]]


def render(summary: BugHuntSummary, run: Run, read_image: Callable[[str], bytes]) -> str:
    """Write the report; ``read_image`` returns an image's bytes by its reference."""
    album = Album(read_image, longest=_THUMBNAIL)
    shown = [ShownBug(bug, _images(bug, album, run.id)) for bug in summary.bugs]
    config = summary.config.model_dump(mode="json")
    context = {
        "summary": summary,
        "run": run,
        "badges": BADGES,
        "shown": shown,
        "config": json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False),
    }
    return TEMPLATES.get_template("bug_hunt/report.html.j2").render(context, images=album.images)


def _images(bug: Bug, album: Album, run: str) -> list[tuple[str, Inline | None]]:
    return [
        (
            each.answer,
            album.generated(each.image, run=run, item=each.item, source_type=GENERATED_SOURCE_TYPE),
        )
        for each in bug.images
    ]
