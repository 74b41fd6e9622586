"""The descriptions of a label's failures that are worth images, from the captions of its baseline samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from counterpose_core.bug_hunt.descriptions import Description, Proposed, describe
from counterpose_core.contract.bug_hunts import BugHuntConfig
from counterpose_gateway.methods.bug_hunt.clustering import clusters_of
from counterpose_gateway.methods.bug_hunt.combining import combined_descriptions
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt


@dataclass(frozen=True)
class Proposal:
    """A description, and the classifiers whose failures proposed it."""

    description: Description
    classifiers: tuple[str, ...]


def proposals(config: BugHuntConfig, hunt: RecordedHunt, label: str) -> list[Proposal]:
    """Return at most the request's number of descriptions of a label, in turns over the classifiers."""
    by_classifier = {
        classifier: proposed(config, hunt, label, classifier).descriptions
        for classifier in config.request.classifiers
    }
    found: dict[str, tuple[Description, list[str]]] = {}
    base = config.prompts[label].casefold()
    for turn in zip_longest(*by_classifier.values()):
        for classifier, description in zip(by_classifier, turn, strict=True):
            if description is not None and description.prompt.casefold() != base:
                found.setdefault(description.prompt.casefold(), (description, []))[1].append(classifier)
    likeliest = list(found.values())[: config.request.hypotheses]
    return [Proposal(description, tuple(classifiers)) for description, classifiers in likeliest]


def proposed(config: BugHuntConfig, hunt: RecordedHunt, label: str, classifier: str) -> Proposed:
    """Return the descriptions of one classifier's failures, and the captions that were left out."""
    counted = hunt.counted_explored(label, classifier)
    if not counted.failures or not counted.successes:
        return Proposed([])
    captions, words = hunt.free_captions, config.request.words
    combined = combined_descriptions(config, hunt, label, classifier) if words != "frequency" else []
    if words == "likelihood":
        return Proposed(combined)
    by_cluster = [
        describe(
            _found(captions, [item.id for item in cluster]),
            _found(captions, [item.id for item in counted.successes]),
            template=config.templates[label],
            label=label,
            classes=config.classes,
        )
        for cluster in clusters_of(config, hunt, label, classifier)
    ]
    turns = chain.from_iterable(zip_longest(*(each.descriptions for each in by_cluster), combined))
    unique: dict[str, Description] = {}
    for each in turns:
        if each is not None:
            unique.setdefault(each.prompt.casefold(), each)
    return Proposed(list(unique.values()), sum((each.dropped for each in by_cluster), Counter()))


def count_captions(hunt: RecordedHunt, dropped: Counter[str]) -> dict[str, int]:
    """Return how many captions were written, and how many were left out or missing, by reason."""
    used = sum(item.result is not None and bool(item.result.caption) for item in hunt.captions)
    missing = Counter(item.code or item.state for item in hunt.captions if item.state != "done")
    return {"written": used, **dropped, **missing}


def _found(captions: Mapping[str, str], samples: Sequence[str]) -> list[str]:
    return [captions[sample] for sample in samples if sample in captions]
