"""The descriptions of a label's failures that are worth images, from the captions of its baseline samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from counterpose_core.bug_hunt.descriptions import Description, Proposed, describe
from counterpose_gateway.methods.bug_hunt.clustering import clusters_of
from counterpose_gateway.methods.bug_hunt.combining import combined_descriptions
from counterpose_gateway.methods.bug_hunt.hunt import Hunt


@dataclass(frozen=True)
class Proposal:
    """A description, and the classifiers whose failures proposed it."""

    description: Description
    classifiers: tuple[str, ...]


def proposals(hunt: Hunt, label: str) -> list[Proposal]:
    """Return at most the request's number of descriptions of a label, in turns over the classifiers."""
    by_classifier = {
        classifier: proposed(hunt, label, classifier).descriptions for classifier in hunt.request.classifiers
    }
    found: dict[str, tuple[Description, list[str]]] = {}
    base = hunt.config.prompts[label].casefold()
    for turn in zip_longest(*by_classifier.values()):
        for classifier, description in zip(by_classifier, turn, strict=True):
            if description is not None and description.prompt.casefold() != base:
                found.setdefault(description.prompt.casefold(), (description, []))[1].append(classifier)
    likeliest = list(found.values())[: hunt.request.hypotheses]
    return [Proposal(description, tuple(classifiers)) for description, classifiers in likeliest]


def proposed(hunt: Hunt, label: str, classifier: str) -> Proposed:
    """Return the descriptions of one classifier's failures, and the captions that were left out."""
    counted = hunt.record.counted_explored(label, classifier)
    if not counted.failures or not counted.successes:
        return Proposed([])
    captions, words = hunt.record.free_captions, hunt.request.words
    combined = combined_descriptions(hunt, label, classifier) if words != "frequency" else []
    if words == "likelihood":
        return Proposed(combined)
    by_cluster = [
        describe(
            _found(captions, [item.id for item in cluster]),
            _found(captions, [item.id for item in counted.successes]),
            template=hunt.config.templates[label],
            label=label,
            classes=hunt.config.classes,
        )
        for cluster in clusters_of(hunt, label, classifier)
    ]
    turns = chain.from_iterable(zip_longest(*(each.descriptions for each in by_cluster), combined))
    unique: dict[str, Description] = {}
    for each in turns:
        if each is not None:
            unique.setdefault(each.prompt.casefold(), each)
    return Proposed(list(unique.values()), sum((each.dropped for each in by_cluster), Counter()))


def count_captions(hunt: Hunt, dropped: Counter[str]) -> dict[str, int]:
    """Return how many captions were written, and how many were left out or missing, by reason."""
    used = sum(item.result is not None and bool(item.result.caption) for item in hunt.record.captions)
    missing = Counter(item.code or item.state for item in hunt.record.captions if item.state != "done")
    return {"written": used, **dropped, **missing}


def _found(captions: Mapping[str, str], samples: Sequence[str]) -> list[str]:
    return [captions[sample] for sample in samples if sample in captions]
