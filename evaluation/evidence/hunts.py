"""The page about bug hunts compared with rendered truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.hunt_words import words_section
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.hunt_validity.report import HuntFigures, HuntValidity
from evaluation.paths import RESULTS

HUNTS = RESULTS / "hunt-validity.json"
FATES = {
    "found": "found: a finding that breaks names the circumstance",
    "not-proven": "held-out images did not prove it",
    "not-chosen": "described, but not chosen",
    "not-described": "no description names it",
    "always-fails": "the label fails on nearly every image",
    "not-shown": "failures do not show the label, by the hunt's own filter",
    "not-seen": "no image failed that could be described",
}
FIGURES = (
    ("planted bugs found, true rate 0.3 or more", "recall_of_strong"),
    ("planted bugs found, all", "recall"),
    ("of these, described by nothing else", "alone"),
    ("findings that break and are true", "precision"),
    ("findings that break, and whose renderings fail surely more often than the label", "surely_above"),
    ("control hunts with a finding", "control_hunts_with_a_finding"),
    ("control hunts with a finding that renderings do not show", "control_hunts_with_a_false_finding"),
    ("held-out intervals with the rate of further images of the generator", "drawn_covered"),
    (
        "held-out intervals with the rate on a user's scenes: what the prompt names, all else as there",
        "user_covered",
    ),
    ("held-out intervals with the rate of the whole description, plain, where a bug is named", "covered"),
    (
        "held-out intervals with the rate of the added words in any style, where a bug is named",
        "words_covered",
    ),
    ("rates that a user's scenes surely reach as the product says, and do", "at_least_holds"),
    ("held-out rate less true rate, where a bug is named", "difference"),
    ("discovery rate less held-out rate", "winners_curse"),
)
BUG_COLUMNS = ("classifier", "bug", "strength taught", "true rate", "of the label alone", "outcome")
CLAIM_COLUMNS = (
    "classifier", "description", "held-out rate", "n", "true rate", "names a bug", "true", "missed by",
)  # fmt: skip


def hunts_page(file: Path = HUNTS) -> str:
    """Write the page."""
    made = HuntValidity.model_validate_json(file.read_bytes())
    figures = [
        [title, *(cells(found, 2) if (found := getattr(made.figures, name)).n else ("not measured", NONE))]
        for title, name in FIGURES
    ]
    body = [
        *table(("figure", "value", "n"), figures), "",
        "## Where bugs are lost", "",
        *table(("bugs with a true rate of 0.3 or more", "bugs"), _fates(made)), "",
        *table(("circumstance", "found", "n"), _attributes(made)), "",
        "## Every bug", "",
        *table(BUG_COLUMNS, _bugs(made)), "",
        "## Every finding", "",
        *table(CLAIM_COLUMNS, _claims(made)), "",
        *words_section(),
        "## Aims", "",
        *table(("aim", "target", "reached", "n", "met"), _aims(made)),
    ]  # fmt: skip
    return page("Bug hunts compared with rendered truth", finding(made), body, _how(made))


def finding(made: HuntValidity) -> str:
    """Say what hunts find, and how often they find something where nothing is planted."""
    figures, setting = made.figures, made.setting
    images, alarms = setting.request["budget"]["images"], figures.control_hunts_with_a_finding
    held = headline_coverage(figures)
    done = f"{setting.hunts} of {setting.planned} hunts were run."
    return (
        f"Bug hunts of {images} images find {figure(figures.recall_of_strong, 2)} of the planted bugs with a"
        f" true failure rate of 0.3 or more (n = {size(figures.recall_of_strong)});"
        f" {figure(figures.precision, 2)} of what they prove is true (n = {size(figures.precision)});"
        f" {_drawn(figures)}{figure(held, 2)} of the held-out intervals hold the rate on rendered scenes"
        f" (n = {size(held)}), and"
        f" {figure(alarms, 2)} of the hunts on classifiers without a planted bug prove something"
        f" (n = {size(alarms)}). {done}"
    )


def _drawn(figures: HuntFigures) -> str:
    """Say how often an interval holds the rate that it is said to be of, where that was measured."""
    drawn = figures.drawn_covered
    if not drawn.n:
        return ""
    return (
        f"{figure(drawn, 2)} of the held-out intervals hold the rate of further images of the generator"
        f" (n = {size(drawn)}); "
    )


def headline_coverage(figures: HuntFigures) -> Estimate:
    """The held-out intervals with the rate on a user's scenes, or in older files of the whole description."""
    return figures.user_covered if figures.user_covered.n else figures.covered


def _fates(made: HuntValidity) -> Iterator[list[str]]:
    for fate, title in FATES.items():
        yield [title, str(made.fates.get(fate, 0))]


def _attributes(made: HuntValidity) -> Iterator[list[str]]:
    for name, found in made.by_attribute.items():
        yield [name, *cells(found, 2)]


def _bugs(made: HuntValidity) -> Iterator[list[str]]:
    for bug in made.bugs:
        told = (f"{bug.label}, {bug.value}", f"{bug.strength:g}")
        rates = (figure(bug.true_rate, 2), figure(bug.label_rate, 2))
        yield [bug.classifier, *told, *rates, bug.fate.replace("-", " ")]


def _claims(made: HuntValidity) -> Iterator[list[str]]:
    for claim in made.claims:
        rates = (
            figure(claim.held_out, 2),
            size(claim.held_out),
            figure(claim.user_rate or claim.true_rate, 2),
        )
        answers = ("yes" if claim.names_bug else NONE, "yes" if claim.is_true else "**no**")
        yield [claim.classifier, claim.description, *rates, *answers, claim.missed_by or NONE]


def _aims(made: HuntValidity) -> Iterator[list[str]]:
    for aim in made.aims:
        met = {None: "unknown", True: "yes", False: "**no**"}[aim.met]
        yield [aim.name, aim.aim, *cells(aim.reached, 2), met]


def _how(made: HuntValidity) -> list[str]:
    setting, request = made.setting, made.setting.request
    return [
        f"- `make validate-hunt`: {setting.classifiers} classifiers with {setting.planted} planted bugs and"
        f" {setting.controls} controls of {_stretches(setting.stretches)}; one hunt a classifier and label,"
        f" of {request['budget']['images']} images at most ({request['steps']} denoising steps,"
        f" {request['held_out']} held-out images a prompt, vary {request['vary']:g}).",
        "",
        "A planted bug is a class under one circumstance that the training labels as another class. The true",
        f"rate is that of {setting.scenes} rendered scenes of the class under the circumstance; what else",
        "of them is drawn as for the generator's training. Classifiers, bugs, and",
        "scenes come from seeds that nothing was tuned on; the hunts of a label share their first images, so",
        "their outcomes are not independent.",
        "",
        "A description is read in three ways. *Whole*: a photo, in clear weather, with nothing beside it,",
        "unless it says otherwise. *A user's scenes*, the headline: what its prompt names, all else as",
        "where the classifier is used (80 % photos, 55 % in clear weather, 55 % of one thing alone), as a",
        "user takes a finding. *Added words*: these alone, all else as for the generator's training. The",
        "first was chosen when six of the findings of stretch 2 had been seen; the second after an audit",
        "of eight findings of other classifiers, before stretch 3 was. The held-out interval speaks of",
        "the generator's images",
        f"alone: it is held against {setting.drawn or 'as yet no'} further images of the same prompt.",
        "",
        *_when_true(made),
        "",
        "*Missed by*: the interval would hold the true rate if the images that the hunt's filter hid were",
        "counted (filter); or the generator's images fail more or less often than renderings do (generator).",
        f"True rates of findings are of {setting.scenes_of_a_finding:,} scenes.",
        "[How a hunt works](../design/bug-hunts.md), [how truth is made](../design/validity.md).",
    ]


def _stretches(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:-1]))
    return f"stretches {named} and {numbers[-1]}" if named else f"stretch {numbers[0]}"


def _when_true(made: HuntValidity) -> list[str]:
    """What makes a finding true, as the file was made."""
    effect = made.setting.effect
    if effect is None:
        return [
            "A finding is true if it names a planted bug of its classifier and label, or if its",
            "renderings, read whole, fail surely more often than those of the label's own prompt. The",
            "true rate is of that reading.",
        ]
    return [
        "A finding is true if the interval of its rate on a user's scenes lies by more than",
        f"{100 * effect:g} points above that of the label as the generator was trained, whatever it names.",
    ]
