"""Refinement of winners: each part alone, then adjectives dropped one by one, each form on new images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.parts import spoken
from counterpose_core.bug_hunt.refinement import (
    Need,
    Rule,
    Shortened,
    needs,
    single_parts,
    without_adjectives,
)
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem


@dataclass(frozen=True)
class Form:
    """A description by its number in the hunt, with what its images are asked for."""

    number: int
    told: HuntInstruction


@dataclass
class Refined:
    """What became of a winner: its shorter forms with their verdicts, and the form that is left."""

    winner: int
    classifier: str
    final: Form
    tried: list[tuple[Form, Need]] = field(default_factory=list)


def refined_winners(
    config: BugHuntConfig, hunt: RecordedHunt, label: str, winners: Mapping[int, str]
) -> list[Refined]:
    """Return what refinement made of each winner; two that end in one form are one.

    Args:
        config: the hunt.
        hunt: its items so far.
        label: the label.
        winners: the classifier that each winner is worst for, by its number, the best first.
    """
    found: dict[str, Refined] = {}
    for number, classifier in winners.items():
        refined = _walk(config, hunt, label, number, classifier)
        found.setdefault((refined.final.told.prompt or "").casefold(), refined)
    return list(found.values())


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
        is_shared = whole and not shortened and any(_forms(config, label, each.final).values())
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
    for forms in _forms(config, label, refined.final).values():
        if new := [each for each in forms if _number(hunt, label, each.prompt) is None]:
            return new
    return []


def _forms(config: BugHuntConfig, label: str, of: Form) -> dict[Rule, list[Shortened]]:
    prompt, template = of.told.prompt or "", config.templates[label]
    parts = [] if of.told.source == "adjective" else single_parts(prompt, template, label)
    # "A fly at night" is a part of "a white fly at night", and what is left without its adjective.
    said = {each.prompt for each in parts}
    shorter = [each for each in without_adjectives(prompt, template, label) if each.prompt not in said]
    return {"part": parts, "adjective": shorter}


def _number(hunt: RecordedHunt, label: str, prompt: str) -> int | None:
    """The description whose images of refinement show this prompt, or None; two winners may share one."""
    told = {**hunt.described, **hunt.shortened}
    return next(
        (
            number
            for number, (of, each) in told.items()
            if of == label
            and (each.prompt or "").casefold() == prompt.casefold()
            and hunt.of_label("refinement", label, number)
        ),
        None,
    )


def _children(config: BugHuntConfig, hunt: RecordedHunt, label: str, of: Form, rule: Rule) -> list[Form]:
    """The measured forms of a description, whichever winner they were drawn for."""
    found: list[Form] = []
    for each in _forms(config, label, of)[rule]:
        if (number := _number(hunt, label, each.prompt)) is not None:
            told = hunt.told(number)
            if told.refines != of.number:
                shown = {"source": rule, "words": each.words, "left_out": each.left_out}
                told = told.model_copy(update={**shown, "refines": of.number})
            found.append(Form(number, told))
    return found


def _walk(config: BugHuntConfig, hunt: RecordedHunt, label: str, winner: int, classifier: str) -> Refined:
    """Follow the forms that fail as often, each time the one of the fewest words, to the shortest."""
    refined = Refined(winner, classifier, Form(winner, hunt.described[winner][1]))
    rules: tuple[Rule, ...] = ("part", "adjective")
    while True:
        before = refined.final
        for rule in rules:
            forms = _children(config, hunt, label, before, rule)
            verdicts = _judged(hunt, label, forms, winner, classifier)
            refined.tried += verdicts
            enough = [form for form, need in verdicts if need == "not-needed"]
            if enough:
                refined.final = min(enough, key=lambda each: (len(spoken(each.told.words)), each.number))
                break
        if refined.final == before:
            return refined


def _judged(
    hunt: RecordedHunt, label: str, forms: list[Form], winner: int, classifier: str
) -> list[tuple[Form, Need]]:
    counts = [form_counts(hunt, label, number, classifier) for number in (winner, *(f.number for f in forms))]
    return list(zip(forms, needs(counts[0], counts[1:]), strict=True))


def form_counts(hunt: RecordedHunt, label: str, number: int, classifier: str) -> FailureCounts:
    """Return the failures of a winner, or of a shorter form, on the images of its refinement."""
    return hunt.counted("refinement", label, classifier, number).counts
