"""Generated images on their way to a record: how much each looks like its label, and every answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterpose_core.bug_hunt.failures import failures
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.samples import SampleResult
from counterpose_core.errors import CounterposeError
from counterpose_core.images.clip_metrics import Vectors, cosine
from counterpose_core.tasks import Truth, classification_of
from counterpose_core.text.class_prompts import object_caption
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.steps.clip import embed_images, embed_texts, require_one_space, unit_vector
from counterpose_gateway.steps.predictions import Answers, classify_images, scored_answers


@dataclass(frozen=True)
class SampleDraft:
    """An image that is not recorded yet; ``features`` are CLIP's, at unit length, once it is measured."""

    item: LeasedItem
    result: SampleResult
    features: Vectors | None = None

    @property
    def image(self) -> str:
        """The image."""
        return self.result.image


@dataclass(frozen=True)
class Judge:
    """Who answers, among which classes, and which answers are failures."""

    classifiers: Sequence[str]
    classes: Sequence[str]
    criterion: Criterion
    parents: Mapping[str, str]


async def measure_label(calls: Calls, drafts: Sequence[SampleDraft]) -> list[SampleDraft]:
    """Measure how much images of one label look like it; one that CLIP cannot read goes on without.

    Raises:
        BackendError: the scorer failed as a whole.
    """
    if not drafts:
        return []
    captions = [object_caption(drafts[0].item.label)]
    embedded, (text,) = await together(
        [embed_images(calls, [draft.image for draft in drafts]), embed_texts(calls, captions)]
    )
    caption = unit_vector(text)
    measured: list[SampleDraft] = []
    for draft, outcome in zip(drafts, embedded, strict=True):
        try:
            vector = unit_vector(outcome)
            require_one_space(vector, caption)
            update = {"object_similarity": float(cosine(vector, caption))}
            measured.append(SampleDraft(draft.item, draft.result.model_copy(update=update), vector))
        except CounterposeError:
            # The classifier's answer is worth more than this check of it.
            measured.append(draft)
    return measured


async def classify_samples(
    calls: Calls, drafts: Sequence[SampleDraft], judge: Judge, *, spare: bool
) -> tuple[list[SampleDraft], Drops]:
    """Ask every classifier about every image; one that fails on an image is left out there.

    An image that none can read is dropped. With ``spare``, a classifier that is down is left out of all
    images, if another one is not.

    Raises:
        BackendError: a classifier is down.
    """
    classified, drops = list[SampleDraft](), Drops()
    if not drafts:
        return classified, drops
    images = list(dict.fromkeys(draft.image for draft in drafts))
    answers = await classify_images(calls, judge.classifiers, images, judge.classes, spare=spare)
    task = classification_of(judge.classes)
    for draft in drafts:
        with drops.on_error([draft.item]):
            label = draft.item.label
            pairs, missing = scored_answers(answers, draft.image, Truth(label), task)
            failed = {spec: _fails(judge, answers[spec], draft.image, label) for spec in pairs}
            update = {"predictions": pairs, "unanswered": missing, "failed": failed}
            classified.append(replace(draft, result=draft.result.model_copy(update=update)))
    return classified, drops


def _fails(judge: Judge, answers: Answers, image: str, label: str) -> bool:
    probabilities = np.asarray([answers[image].unwrap().probabilities], dtype=np.float64)
    return bool(failures(judge.criterion, probabilities, label, judge.classes, judge.parents)[0])
