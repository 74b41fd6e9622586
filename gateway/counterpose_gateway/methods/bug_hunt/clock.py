"""How much of a hunt's minutes is left, by the times that are recorded with its images."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from counterpose_core.contract.bug_hunts import BugHuntConfig
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt

OUT_OF_TIME = "out-of-time"
"""Why an image was not made whose turn came after the hunt's minutes."""


def now() -> dt.datetime:
    """Return the time of the worker's clock, in UTC."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class TimeLeft:
    """How many images the budget of minutes still allows, and when it ends; None is no limit.

    By recorded times alone: a planner that follows a killed one must plan the same stage. Minutes are those
    of the clock between the begin of the first image and the end of the last, whatever came between.
    """

    images: int | None = None
    seconds_per_image: float = 0.0
    ends: dt.datetime | None = None

    @classmethod
    def of(cls, config: BugHuntConfig, hunt: RecordedHunt) -> TimeLeft:
        """Measure what is left."""
        minutes = config.request.budget.minutes
        if minutes is None or hunt.began is None or hunt.ended is None or hunt.made == 0:
            return cls()
        spent = (hunt.ended - hunt.began).total_seconds()
        pace = spent / hunt.made
        left = 60.0 * minutes - spent
        images = None if pace <= 0.0 else max(0, int(left / pace))
        return cls(images, max(pace, 0.0), hunt.began + dt.timedelta(minutes=minutes))

    def cap(self, images: int, prompts: int, *, reserved: int = 0) -> int:
        """Return the images of each of ``prompts`` that there is time for, leaving ``reserved`` in all."""
        if self.images is None or prompts == 0:
            return images
        return min(images, max(0, self.images - reserved) // prompts)

    def until(self, *, reserved: int = 0) -> dt.datetime | None:
        """Return when the images of a stage must have begun to leave the time of ``reserved`` images."""
        if self.ends is None:
            return None
        return self.ends - dt.timedelta(seconds=reserved * self.seconds_per_image)
