"""Images of a winner and of its shorter forms: each part alone, then adjectives dropped one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from counterpose_core.bug_hunt.budget import LEAST_ROUND
from counterpose_core.bug_hunt.refinement import Shortened
from counterpose_core.contract.bug_hunts import HuntInstruction
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.ranking import Refined, forms_of, number_of, refined
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem


def plan_refinement(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan new images of each winner and of shorter forms of it, while it has forms that were not tried."""
    # A hunt of an earlier version has it in its request alone.
    size = hunt.config.shares.refine or hunt.request.refine or 0
    if size == 0:
        return
    won = {label: refined(hunt, label) for label in hunt.request.labels}
    forms = sum(len(_next_forms(hunt, label, each)) + 1 for label in won for each in won[label])
    size = hunt.cap(size, forms, "refinement")
    numbers = count(1 + max([0, *hunt.record.described, *hunt.record.shortened]))
    if size >= LEAST_ROUND:
        for label, each in won.items():
            yield from _images(hunt, label, each, numbers, size)


def _images(
    hunt: Hunt, label: str, refined: list[Refined], numbers: Iterator[int], size: int
) -> Iterator[PlannedItem]:
    """Images of the next shorter forms of each winner, as far as the budget goes; equal forms share theirs.

    ``numbers``: those of the next new forms in the hunt; ``size``: images of each form.
    """
    key = ("refinement", label)
    spent = sum(len(items) for (*of, _), items in hunt.record.samples.items() if tuple(of) == key)
    left, planned = hunt.config.shares.refinement - spent, set[str]()
    for each in refined:
        shortened = [form for form in _next_forms(hunt, label, each) if form.prompt not in planned]
        whole = not hunt.record.of_label("refinement", label, each.winner)
        # Others' forms are its own: the whole alone is missing.
        is_shared = whole and not shortened and any(forms_of(hunt.config, label, each.final).values())
        shortened = shortened[: max(0, left // size - whole)]
        if not shortened and not (is_shared and left >= size):
            continue
        planned.update(form.prompt for form in shortened)
        if whole:
            told = hunt.record.described[each.winner][1].model_copy(update={"phase": "refinement"})
            yield from plan_samples(hunt.config, label, told, range(size))
        for form in shortened:
            told = _instruction(form, next(numbers), each)
            yield from plan_samples(hunt.config, label, told, range(size))
        left -= size * (len(shortened) + whole)


def _instruction(form: Shortened, number: int, refined: Refined) -> HuntInstruction:
    return HuntInstruction(
        phase="refinement",
        prompt=form.prompt,
        hypothesis=number,
        source=form.rule,
        words=form.words,
        left_out=form.left_out,
        classifiers=[refined.classifier],
        refines=refined.final.number,
    )


def _next_forms(hunt: Hunt, label: str, refined: Refined) -> list[Shortened]:
    """The forms of the shortest description so far that are not measured: its parts, or else adjectives."""
    for forms in forms_of(hunt.config, label, refined.final).values():
        if new := [each for each in forms if number_of(hunt, label, each.prompt) is None]:
            return new
    return []
