"""Images of a winner and of its shorter forms: each part alone, then adjectives dropped one by one."""

from __future__ import annotations

from collections.abc import Iterator

from counterpose_core.bug_hunt.refinement import (
    Shortened,
)
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.ranking import Refined, forms_of, number_of
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem


def plan_refinement(
    config: BugHuntConfig, hunt: RecordedHunt, label: str, refined: list[Refined], *, first: int, size: int
) -> Iterator[PlannedItem]:
    """Plan images of the next shorter forms of each winner, as far as the budget goes.

    Equal forms of two winners share theirs.

    Args:
        config: the hunt.
        hunt: its items so far.
        label: the label.
        refined: the label's winners as they stand.
        first: the number of the first new form in the hunt.
        size: images of each form.
    """
    spent = sum(len(items) for (phase, of, _), items in hunt.samples.items() if (phase, of) == _key(label))
    left, number, planned = config.shares.refinement - spent, first, set[str]()
    for each in refined:
        shortened = [form for form in _next_forms(config, hunt, label, each) if form.prompt not in planned]
        whole = not hunt.of_label("refinement", label, each.winner)
        # Others' forms are its own: the whole alone is missing.
        is_shared = whole and not shortened and any(forms_of(config, label, each.final).values())
        shortened = shortened[: max(0, left // size - whole)]
        if not shortened and not (is_shared and left >= size):
            continue
        planned.update(form.prompt for form in shortened)
        if whole:
            told = hunt.described[each.winner][1].model_copy(update={"phase": "refinement"})
            yield from plan_samples(config, label, told, range(size))
        for form in shortened:
            yield from plan_samples(config, label, _instruction(form, number, each), range(size))
            number += 1
        left -= size * (len(shortened) + whole)


def new_forms(config: BugHuntConfig, hunt: RecordedHunt, label: str, refined: list[Refined]) -> int:
    """Return how many forms of a label's winners are left to try."""
    return sum(len(_next_forms(config, hunt, label, each)) for each in refined)


def _key(label: str) -> tuple[str, str]:
    return "refinement", label


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


def _next_forms(config: BugHuntConfig, hunt: RecordedHunt, label: str, refined: Refined) -> list[Shortened]:
    """The forms of the shortest description so far that are not measured: its parts, or else adjectives."""
    for forms in forms_of(config, label, refined.final).values():
        if new := [each for each in forms if number_of(hunt, label, each.prompt) is None]:
            return new
    return []
