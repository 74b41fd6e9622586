"""How descriptions rank by their images: standings, winners, and the shorter forms that fail as often."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterpose_core.bug_hunt.budget import Standing, promising
from counterpose_core.bug_hunt.comparison import LEVEL
from counterpose_core.bug_hunt.descriptions import content_words
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
from counterpose_gateway.methods.bug_hunt.hunt import Hunt


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


def standings(hunt: Hunt, label: str) -> dict[int, tuple[Standing, str]]:
    """Return how each description of a label stands, by number, with the classifier that it is worst for."""
    found: dict[int, tuple[Standing, str]] = {}
    for number, told in hunt.record.descriptions(label).items():
        each = [
            (
                Standing(
                    number,
                    hunt.record.counted("hypothesis", label, classifier, number).counts,
                    hunt.record.counted("baseline", label, classifier).counts,
                    content_words(told.words, label),
                ),
                classifier,
            )
            for classifier in told.classifiers
        ]
        if each:
            found[number] = min(each, key=lambda pair: pair[0].p)
    return found


def winners(hunt: Hunt, label: str) -> list[int]:
    """Return the descriptions of a label to measure on held-out images, the best first.

    Only those that fail more often than the baseline by an uncorrected test: held-out images correct for it.
    """
    significant = [standing for standing, _ in standings(hunt, label).values() if standing.p <= LEVEL]
    return promising(significant, hunt.request.winners)


def refined(hunt: Hunt, label: str) -> list[Refined]:
    """Return the winners of a label as refinement leaves them: what held-out images measure."""
    if hunt.request.descriptions:
        # All that the user asks about is measured, for each classifier.
        return [
            Refined(number, name, Form(number, told))
            for number, told in hunt.record.descriptions(label).items()
            for name in hunt.request.classifiers
        ]
    standing = standings(hunt, label)
    # Two that end in one form are one.
    forms: dict[str, Refined] = {}
    for number in winners(hunt, label):
        ended = _walk(hunt, label, number, standing[number][1])
        forms.setdefault((ended.final.told.prompt or "").casefold(), ended)
    return list(forms.values())


def forms_of(config: BugHuntConfig, label: str, of: Form) -> dict[Rule, list[Shortened]]:
    """Return the shorter forms of a description by the rule that makes them."""
    prompt, template = of.told.prompt or "", config.templates[label]
    parts = [] if of.told.source == "adjective" else single_parts(prompt, template, label)
    # "A fly at night" is a part of "a white fly at night", and what is left without its adjective.
    said = {each.prompt for each in parts}
    shorter = [each for each in without_adjectives(prompt, template, label) if each.prompt not in said]
    return {"part": parts, "adjective": shorter}


def number_of(hunt: Hunt, label: str, prompt: str) -> int | None:
    """Return the description whose images of refinement show this prompt; two winners may share one."""
    told = {**hunt.record.described, **hunt.record.shortened}
    return next(
        (
            number
            for number, (of, each) in told.items()
            if of == label
            and (each.prompt or "").casefold() == prompt.casefold()
            and hunt.record.of_label("refinement", label, number)
        ),
        None,
    )


def _children(hunt: Hunt, label: str, of: Form, rule: Rule) -> list[Form]:
    """The measured forms of a description, whichever winner they were drawn for."""
    found: list[Form] = []
    for each in forms_of(hunt.config, label, of)[rule]:
        if (number := number_of(hunt, label, each.prompt)) is not None:
            told = hunt.record.told(number)
            if told.refines != of.number:
                shown = {"source": rule, "words": each.words, "left_out": each.left_out}
                told = told.model_copy(update={**shown, "refines": of.number})
            found.append(Form(number, told))
    return found


def _walk(hunt: Hunt, label: str, winner: int, classifier: str) -> Refined:
    """Follow the forms that fail as often, each time the one of the fewest words, to the shortest."""
    refined = Refined(winner, classifier, Form(winner, hunt.record.described[winner][1]))
    rules: tuple[Rule, ...] = ("part", "adjective")
    while True:
        before = refined.final
        for rule in rules:
            forms = _children(hunt, label, before, rule)
            verdicts = _judged(hunt, label, forms, winner, classifier)
            refined.tried += verdicts
            enough = [form for form, need in verdicts if need == "not-needed"]
            if enough:
                refined.final = min(enough, key=lambda each: (len(spoken(each.told.words)), each.number))
                break
        if refined.final == before:
            return refined


def _judged(
    hunt: Hunt, label: str, forms: list[Form], winner: int, classifier: str
) -> list[tuple[Form, Need]]:
    numbers = (winner, *(form.number for form in forms))
    counts = [hunt.record.counted("refinement", label, classifier, number).counts for number in numbers]
    return list(zip(forms, needs(counts[0], counts[1:]), strict=True))
