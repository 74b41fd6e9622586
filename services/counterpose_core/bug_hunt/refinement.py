"""Shorter forms of a description, and whether they fail as often (Wiles et al., section 3, refinement)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from counterpose_core.bug_hunt.comparison import LEVEL, FailureCounts, above_baseline, rate_ratio
from counterpose_core.bug_hunt.parts import parts, place_of, sentences, spoken, written
from counterpose_core.statistics.p_values import holm
from counterpose_core.text.adjectives import attributive
from counterpose_core.text.interventions import agreeing_article

Rule = Literal["part", "adjective"]
Need = Literal["needed", "not-needed", "cannot-tell"]

KEPT = 0.5
"""Words are not needed if the form without them surely keeps this share of the failure rate."""


@dataclass(frozen=True)
class Shortened:
    """A shorter form of a description: its prompt, the words that are left, and those left out."""

    prompt: str
    words: str
    left_out: str
    rule: Rule


def single_parts(description: str, template: str, label: str) -> list[Shortened]:
    """Return each part of a description with the baseline's prompt alone; none if it has only one."""
    found = parts(description, template, label)
    if len(found) < 2:
        return []
    return [
        Shortened(each.prompt, each.words, "; ".join(other.words for other in found if other != each), "part")
        for each in found
    ]


def without_adjectives(description: str, template: str, label: str) -> list[Shortened]:
    """Return a description without each of its adjectives; those of the baseline's prompt stay."""
    own, kept = set(spoken(template)), spoken(label)
    found: list[Shortened] = []
    listed = sentences(description)
    for number, sentence in enumerate(listed):
        words = spoken(sentence)
        at = place_of(words, kept)
        named = set() if at is None else set(range(at, at + len(kept)))
        for place in attributive(words):
            if place in named or words[place] in own:
                continue
            before = agreeing_article(f"{written(words[:place])} ", words[place + 1])
            shorter = f"{before}{written(words[place + 1 :])}".strip()
            prompt = " ".join([*listed[:number], shorter, *listed[number + 1 :]])
            left = " ".join(part.words for part in parts(prompt, template, label))
            found.append(Shortened(prompt, left, words[place], "adjective"))
    return found


def needs(whole: FailureCounts, shortened: Sequence[FailureCounts]) -> list[Need]:
    """Say of each shorter form whether the words that it leaves out are needed for the failures.

    Fisher's exact test, one-sided, with Holm's correction over the forms: ``needed`` if the whole
    description fails more often. ``not-needed`` if the form surely keeps half of the rate (Koopman's
    interval of the ratio).

    Args:
        whole: new images of the description, which did not choose it.
        shortened: images of its shorter forms.
    """
    adjusted = holm([above_baseline(whole, each) for each in shortened])
    return [_need(whole, each, p) for each, p in zip(shortened, adjusted, strict=True)]


def _need(whole: FailureCounts, shortened: FailureCounts, p: float) -> Need:
    if p <= LEVEL:
        return "needed"
    return "not-needed" if rate_ratio(shortened, whole).low >= KEPT else "cannot-tell"
