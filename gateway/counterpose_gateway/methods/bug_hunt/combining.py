"""The likeliest combination of sentences for the failures of a cluster, as items of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

import numpy as np

from counterpose_core.blobs import cache_key
from counterpose_core.bug_hunt.combination import (
    MOST_IMAGES,
    best_extension,
    combined_prompt,
    continuation,
    joined,
    pooled,
)
from counterpose_core.bug_hunt.descriptions import Description, usable
from counterpose_core.bug_hunt.parts import beside
from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.contract.bug_hunts import HuntInstruction, HuntResult, Weighed
from counterpose_core.contract.captioner import LogLikelihood, LogLikelihoodItem, LogLikelihoodRequest
from counterpose_gateway.methods.bug_hunt.clustering import clusters_of
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.calls import Calls


def plan_combinations(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan one item for each cluster of failures, of each label and classifier, that has captions."""
    if hunt.request.words == "frequency":
        return
    slot = 0
    for label in hunt.request.labels:
        for classifier, number, cluster in _clusters(hunt, label):
            told = _instruction(hunt, label, classifier, cluster)
            if told is None:
                continue
            key = cache_key(combination=label, classifier=classifier, cluster=number)
            yield PlannedItem(
                item_key=key,
                ordinal=0,
                kind="combination",
                item_group=key,
                source_image=hunt.config.examples[label],
                label=label,
                slot=slot,
                instruction=told.model_dump(mode="json", exclude_defaults=True),
            )
            slot += 1


def combined_descriptions(hunt: Hunt, label: str, classifier: str) -> list[Description]:
    """Return what the combinations of a classifier's failures say: all sentences, each alone, the first ones.

    Each alone, because the first one is the likeliest beginning of a caption, and need not be what the
    failures share.
    """
    by_cluster: list[list[Description]] = []
    for item in hunt.record.combinations:
        told = item.instruction
        if item.label != label or item.result is None or told is None or classifier not in told.classifiers:
            continue
        chosen = [each.sentence for each in item.result.combined]
        if not chosen:
            continue
        found: list[Description] = []
        firsts = (chosen[:size] for size in range(len(chosen) - 1, 1, -1))
        for said in (chosen, *([each] for each in chosen), *firsts):
            prompt = combined_prompt(hunt.config.prompts[label], said)
            words = beside(prompt, hunt.config.templates[label], label)
            found.append(Description(prompt, words, "combination"))
        by_cluster.append(found)
    return [each for each in chain.from_iterable(zip_longest(*by_cluster)) if each is not None]


def _clusters(hunt: Hunt, label: str) -> Iterator[tuple[str, int, list[HuntedItem]]]:
    for classifier in hunt.request.classifiers:
        for number, cluster in enumerate(clusters_of(hunt, label, classifier)):
            yield classifier, number, cluster


def _instruction(
    hunt: Hunt, label: str, classifier: str, cluster: Sequence[HuntedItem]
) -> HuntInstruction | None:
    captions = hunt.record.forced_captions
    told = [captions[item.id] for item in cluster if item.id in captions]
    kept = set(usable([text for _, text in told], label, hunt.config.classes, Counter()))
    prompt = hunt.config.prompts[label]
    said = [(image, continuation(text, prompt)) for image, text in told if " ".join(text.split()) in kept]
    found = [(image, text) for image, text in said if text]
    if not found:
        return None
    return HuntInstruction(
        phase="combination",
        prompt=prompt,
        classifiers=[classifier],
        images=[image for image, _ in found[:MOST_IMAGES]],
        sentences=pooled(text for _, text in found),
    )


async def combine(calls: Calls, item: LeasedItem, told: HuntInstruction, most: int) -> HuntResult:
    """Add the sentence of the greatest likelihood until none makes the caption likelier, at most ``most``.

    Raises:
        InvalidRequest: no image has a likelihood of any sentence.
        BackendError: the captioner failed as a whole.
    """
    chosen: list[Weighed] = []
    left = list(told.sentences)
    while left and len(chosen) < most:
        before = [each.sentence for each in chosen]
        texts = [joined([*before, sentence]) for sentence in left]
        place, mean = await _best(calls, told, texts)
        if chosen and mean <= chosen[-1].log_likelihood:
            break
        chosen.append(Weighed(sentence=left.pop(place), log_likelihood=mean, images=len(told.images)))
    return HuntResult(image=item.source_image, prompt=told.prompt, combined=chosen)


async def _best(calls: Calls, told: HuntInstruction, texts: Sequence[str]) -> tuple[int, float]:
    asked = [
        LogLikelihoodItem(image=image, text=text, prefix=told.prompt or "")
        for image in told.images
        for text in texts
    ]
    outcomes: list[Outcome[LogLikelihood]] = []
    for start in range(0, len(asked), MAX_BATCH):
        request = LogLikelihoodRequest(items=asked[start : start + MAX_BATCH])
        outcomes += await calls.ask("captioner", calls.services.captioner.log_likelihood, request)
    weighed = [outcome.value for outcome in outcomes]
    if not any(weighed):
        # The first image's reason says more than that none could be weighed.
        outcomes[0].unwrap()
    shape = len(told.images), len(texts)
    totals = np.array([np.nan if each is None else each.total for each in weighed]).reshape(shape)
    tokens = np.array([1.0 if each is None else each.tokens for each in weighed]).reshape(shape)
    # A text has as many tokens beside any image; 1 stands for those that could not be weighed.
    best = best_extension(totals, tokens.max(axis=0))
    return best.place, best.mean
