"""The items of a confirmation: edits of the chosen changes in turns, each place with one placebo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from counterpose_core.blobs import cache_key
from counterpose_core.contract.confirmation import Instruction, SuspectedChange
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.screening import Change
from counterpose_gateway.methods.stress_test.confirm.captioned import Showing
from counterpose_gateway.methods.stress_test.observations.observations import Observation, Place
from counterpose_gateway.methods.stress_test.screen.items import items_hash
from counterpose_gateway.records.items import PlannedItem


@dataclass(frozen=True)
class Wanted:
    """A change with the sources, or draws of sources, that are to show it, in the order to take them."""

    slot: int
    change: Change
    classifiers: tuple[str, ...]
    showings: Sequence[Showing]


@dataclass(frozen=True)
class Shot:
    """An edit to make: what shows the change, and the change."""

    showing: Showing
    wanted: Wanted

    @property
    def instruction(self) -> Instruction:
        """What it asks of its item."""
        change = self.wanted.change
        return Instruction(
            change=SuspectedChange(edit_type=change.edit_type, removed=change.removed, added=change.added),
            wording=self.showing.wording,
            classifiers=list(self.wanted.classifiers),
            draw=self.showing.draw,
            mask=self.showing.source.mask,
        )


def in_turns(wanted: Sequence[Wanted], seen: Iterable[Observation], budget: int) -> Iterator[Shot]:
    """Yield one more edit of each change in turns, while ``budget`` items last.

    The first edit of a place pays for its placebo too; further changes of that place share it.
    """
    paid = _with_placebo(seen)
    queues = {each.slot: iter(each.showings) for each in wanted}
    while queues:
        for each in wanted:
            showing = next(queues.get(each.slot, iter(())), None)
            cost = 1 if showing is None or showing.place in paid else 2
            if showing is None or cost > budget:
                queues.pop(each.slot, None)
                continue
            budget -= cost
            paid.add(showing.place)
            yield Shot(showing, each)


def _with_placebo(seen: Iterable[Observation]) -> set[Place]:
    return {each.place for each in seen if each.kind == "placebo" and each.stage > 1}


def planned_items(
    config: StressTestConfig, shots: Iterable[Shot], seen: Iterable[Observation]
) -> Iterator[PlannedItem]:
    """Yield the placebo and the edits of each place, in the order of the places' first edits."""
    have, ordinal = _with_placebo(seen), 0
    keys = _Keys(items_hash(config), redraw_hash(config))
    by_place: dict[Place, list[Shot]] = {}
    for shot in shots:
        by_place.setdefault(shot.showing.place, []).append(shot)
    for place, found in by_place.items():
        planned: list[Shot | None] = [*found] if place in have else [None, *found]
        for each in planned:
            yield _item(keys, found[0].showing, each, ordinal)
            ordinal += 1


@dataclass(frozen=True)
class _Keys:
    """The hashes of the run's configuration that item keys contain; draws have settings of their own."""

    config: str
    redraw: str


def _item(keys: _Keys, showing: Showing, shot: Shot | None, ordinal: int) -> PlannedItem:
    source, change = showing.source, None if shot is None else shot.wanted.change
    asked = Instruction(draw=showing.draw, mask=source.mask) if shot is None else shot.instruction
    drawn = {} if showing.draw is None else {"draw": showing.draw, "redraw": keys.redraw}
    return PlannedItem(
        item_key=cache_key(
            source=source.source,
            object_class=source.label,
            edit_type="confirmation" if change else "placebo",
            change=None if change is None else [change.edit_type, change.removed, change.added],
            config=keys.config,
            **drawn,
        ),
        ordinal=ordinal,
        kind="confirmation" if change else "placebo",
        item_group=source.source,
        source_image=source.image,
        label=source.label,
        edit_type=None if change is None else change.edit_type,
        # The seed of a placebo's wording depends on its slot.
        slot=(showing.draw or 0) if shot is None else shot.wanted.slot,
        caption=source.caption,
        labels=source.labels,
        instruction=asked.model_dump(mode="json"),
    )


def redraw_hash(config: StressTestConfig) -> str:
    """Return the hash of the settings that draw again, which the keys of draws contain."""
    return cache_key(redraw=None if config.redraw is None else config.redraw.model_dump(mode="json"))
