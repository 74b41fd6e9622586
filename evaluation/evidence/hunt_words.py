"""The part of the page about bug hunts that compares frequent words with likely sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.evidence.markdown import NONE, cells, figure, size, table
from evaluation.hunt_validity.words import Paired, WayFigures, WordsComparison
from evaluation.paths import RESULTS

WORDS = RESULTS / "hunt-words.json"
WAYS = (
    "way", "found, true rate 0.3 or more", "n", "found, all", "n", "findings that are true", "n", "images",
)  # fmt: skip
PAIRS = (
    "bugs", "both", "frequency alone", "likelihood alone", "neither", "frequency's share of those", "p",
)  # fmt: skip


def words_section(file: Path = WORDS) -> list[str]:
    """Write the section; nothing where the comparison was not made."""
    if not file.exists():
        return []
    made = WordsComparison.model_validate_json(file.read_bytes())
    pairs = {"true rate 0.3 or more": made.strong, "all": made.every}
    return [
        "## Frequent words or likely sentences", "",
        f"{_finding(made)} `python -m evaluation.hunt_validity.compare_words`: {made.hunts} of {made.planned}"
        f" hunts of stretch {made.stretch} by each way, on the label's same images.", "",
        *table(WAYS, (_way(name, each) for name, each in made.ways.items())), "",
        *table(PAIRS, (_pair(name, each) for name, each in pairs.items())), "",
        *table(("classifier", "bug", "true rate", "frequency", "likelihood"), _differing(made)), "",
    ]  # fmt: skip


def _finding(made: WordsComparison) -> str:
    strong = made.strong
    n = strong.both + strong.only_frequency + strong.only_likelihood + strong.neither
    p = "" if strong.p is None else f", p = {strong.p:.2g}"
    return (
        f"Words that failures have more often than successes find {strong.only_frequency} planted bugs that"
        f" the captioner's likelihood (the paper's way) misses, and miss {strong.only_likelihood} of its own"
        f" (n = {n} with a true rate of 0.3 or more; exact McNemar's test{p})."
    )


def _way(name: str, each: WayFigures) -> list[str]:
    rates = (each.recall_of_strong, each.recall, each.precision)
    return [name, *(cell for rate in rates for cell in cells(rate, 2)), f"{each.images:,}"]


def _pair(name: str, each: Paired) -> list[str]:
    counts = (each.both, each.only_frequency, each.only_likelihood, each.neither)
    share = f"{figure(each.frequency_alone, 2)}, n = {size(each.frequency_alone)}"
    return [name, *map(str, counts), share, NONE if each.p is None else f"{each.p:.2g}"]


def _differing(made: WordsComparison) -> Iterator[list[str]]:
    for bug in made.bugs:
        if bug.frequency != bug.likelihood:
            fates = (bug.frequency.replace("-", " "), bug.likelihood.replace("-", " "))
            yield [bug.classifier, bug.bug, figure(bug.true_rate, 2), *fates]
