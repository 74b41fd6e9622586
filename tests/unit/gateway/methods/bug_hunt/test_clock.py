"""A hunt's minutes: by recorded times, so that a stage is planned the same again, and kept by the worker."""

from __future__ import annotations

import datetime as dt

from counterpose_core.contract.bug_hunts import HuntInstruction, HuntItem
from counterpose_gateway.methods.bug_hunt.clock import TimeLeft
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from fakes.hunted_items import MORNING, hunt_config, hunt_run, sample

FLOWERS = HuntInstruction(
    phase="hypothesis", prompt="a photo of a fly among the flowers", hypothesis=1, source="words",
    words="among the flowers", classifiers=["model"],
)  # fmt: skip


def timed(images: int, seconds: float, failures: int = 0) -> list[HuntItem]:
    """Images of which one ends every so many seconds."""
    return [sample(n, "bee" if n < failures else "fly", seconds=seconds) for n in range(images)]


def untils(items: list[HuntItem], stage: int, minutes: float) -> set[dt.datetime | None]:
    plan = next_stage(hunt_run(hunt_config(minutes=minutes), stage), items)
    assert plan is not None
    return {HuntInstruction.model_validate(each.instruction).until for each in plan.items}


def test_minutes_are_those_of_the_clock_and_not_of_services() -> None:
    items = timed(30, 2.0)
    # Two workers: what the services spent is twice the time.
    busy = [
        each.model_copy(
            update={"result": each.result.model_copy(update={"service_seconds": {"editor": 4.0}})}
        )
        for each in items
        if each.result is not None
    ]
    left = Hunt.of(hunt_config(minutes=3), busy).clock
    assert (left.images, left.seconds_per_image) == (60, 2.0)
    assert left.ends == MORNING + dt.timedelta(minutes=3)
    assert left.cap(100, 2) == 30
    assert left.cap(100, 2, reserved=40) == 10


def test_without_minutes_or_recorded_times_there_is_no_limit() -> None:
    assert Hunt.of(hunt_config(), timed(30, 2.0)).clock == TimeLeft()
    assert Hunt.of(hunt_config(minutes=3), timed(30, 0.0)).clock == TimeLeft()
    assert TimeLeft().cap(100, 2) == 100
    assert TimeLeft().until(reserved=5) is None


def test_every_stage_but_the_last_leaves_time_for_held_out_images() -> None:
    # Three prompts of 64 held-out images, a second each, are kept back, and a round of descriptions.
    kept_back = MORNING + dt.timedelta(seconds=360 - 192 - 64)
    assert untils(timed(64, 1.0), 1, minutes=6) == {kept_back}
    items = [
        *timed(64, 1.0, failures=3),
        *(sample(64 + n, "bee" if n < 30 else "fly", told=FLOWERS, stage=4, seconds=1.0) for n in range(60)),
    ]
    assert untils(items, 4, minutes=5) == {MORNING + dt.timedelta(minutes=5)}
    assert untils(timed(64, 1.0), 1, minutes=5000) != {None}


def test_captions_have_no_end() -> None:
    assert untils(timed(64, 1.0, failures=3), 2, minutes=1.1) == {None}
