"""Plan a bug hunt: check what it names, draw one image of each label, plan the first baseline samples."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain

from faultline_core.bug_hunt.budget import share
from faultline_core.bug_hunt.comparison import detectable_rate
from faultline_core.bug_hunt.descriptions import baseline_template
from faultline_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntInstruction, HuntShares
from faultline_core.contract.classifiers import DescribeRequest
from faultline_core.contract.editor import GenerateItem, GenerationPreset
from faultline_core.contract.failure_criteria import NoRelative, TakenFor
from faultline_core.errors import InvalidRequest, RequestError
from faultline_core.text.class_prompts import check_prompt, fill
from faultline_core.types import BlobRef
from faultline_gateway.methods.bug_hunt.drawing import first_held_out
from faultline_gateway.methods.bug_hunt.measuring import (
    check_drawable,
    own_descriptions,
    own_shares,
    plan_own,
)
from faultline_gateway.methods.bug_hunt.photographs import photographs_of, plan_photographs
from faultline_gateway.methods.bug_hunt.samples import numbered, plan_samples
from faultline_gateway.runs.classifiers import check_classifiers, require_known
from faultline_gateway.runs.context import RunContext
from faultline_gateway.runs.generation import images_per_call
from faultline_gateway.runs.items import Plan, PlannedItem
from faultline_gateway.runs.seeds import image_seed
from faultline_gateway.runs.stores import check_image
from faultline_gateway.runs.submission import require_quota
from faultline_gateway.services.ports import Services
from faultline_gateway.version import VERSIONS

FIRST_BASELINE = 64
"""Baseline images of a label that are planned before the time of an image is known."""

NO_DATASET = ""
"""A hunt is about no dataset."""


async def plan(create: BugHuntCreate, context: RunContext) -> Plan:
    """Resolve the request and plan the first baseline samples of each label.

    Raises:
        InvalidRequest: the budget is too small; no classifier has a label or a target, or they are equal; the
            generator does not know a label's words; a description is none of a label; the classes of a
            classifier are unknown.
        QuotaExceeded: it might have more items than a run may.
        UnknownDataset: there is no dataset of such photographs.
        UnknownModel, ClassMapMismatch, PromptTooLong: as of other runs.
    """
    request, suite = create, context.suite
    shares = None if request.descriptions else _shares(request, context)
    varied = 0 if shares is None else shares.varied
    require_quota(request.budget.images + _captions(request, varied), context, "/budget/images")
    classes = await _classes(request, context.services)
    _check_labels(request, classes)
    templates = _templates(request, suite.editor.photo_prompt)
    own = own_descriptions(request, classes, templates)
    prompts = {label: fill(template, label) for label, template in templates.items()}
    generation = (suite.editor.hunt_generation or suite.editor.generation).changed_by(request)
    examples = await _examples(request, prompts, generation, context)
    await check_classifiers(request.classifiers, classes, examples[request.labels[0]], context.services)
    photographs = await photographs_of(request, own, context)
    await check_drawable(own, generation, request.seed, context)
    tests = len(own) * len(request.classifiers) or min(request.winners, request.hypotheses) * len(
        request.labels
    )
    detectable = await asyncio.to_thread(detectable_rate, 0.0, request.held_out, tests)
    config = BugHuntConfig(
        request=request,
        suite=suite.name,
        generation=generation,
        models={
            "editor": suite.editor.model,
            "scorer": suite.scorer.clip,
            "captioner": suite.captioner.model,
        },
        versions=VERSIONS,
        classes=classes,
        templates=templates,
        prompts=prompts,
        examples=examples,
        shares=shares or own_shares(request, own),
        detectable=detectable,
        clip=suite.scorer.checkpoint or suite.scorer.clip,
        objectionable=suite.scorer.objectionable,
        notes=_notes(request, detectable, suite.name),
    )
    # Before generated images, so that the next stage follows these.
    shown = plan_photographs(photographs)
    images = plan_own(config, own, first_held_out(config)) if own else _first_baseline(config)
    planned = chain(shown, images)
    return Plan(NO_DATASET, config, list(numbered(planned)))


def _shares(request: BugHuntCreate, context: RunContext) -> HuntShares:
    found = share(
        request.budget.images,
        len(request.labels),
        hypotheses=request.hypotheses,
        winners=request.winners,
        held_out=request.held_out,
        refine=request.refine,
        # Without a language model there is nobody to edit captions.
        vary=request.vary if context.suite.perturber is not None else 0.0,
    )
    return HuntShares.model_validate(vars(found))


def _captions(request: BugHuntCreate, varied: int) -> int:
    """The most captions that a search has written, clusters and combinations of their sentences."""
    if request.descriptions:
        return 0
    kinds = {"frequency": 2, "likelihood": 1, "both": 3}[request.words]
    # A cluster has a caption at least, so that there are no more combinations than captions of failures.
    combinations = (
        0 if request.words == "frequency" else 1 if request.clusters == "none" else request.captions
    )
    each = kinds * request.captions + combinations + int(request.clusters == "features")
    # Of the label alone and of edited captions, and those that are edited.
    rounds = 1 if request.vary == 0.0 else 2
    return rounds * each * len(request.labels) * len(request.classifiers) + varied


def _first_baseline(config: BugHuntConfig) -> Iterator[PlannedItem]:
    first = range(min(FIRST_BASELINE, config.shares.baseline))
    for label in config.request.labels:
        told = HuntInstruction(phase="baseline", prompt=config.prompts[label])
        yield from plan_samples(config, label, told, first)


async def _classes(create: BugHuntCreate, services: Services) -> list[str]:
    """The classes among which the classifiers choose: the request's, or those that all of them have."""
    if create.classes is not None:
        return list(create.classes)
    listed = {each.spec: each.classes for each in (await services.classifiers.list_classifiers()).classifiers}
    common: list[str] | None = None
    for index, spec in enumerate(create.classifiers):
        require_known(spec, index, listed)
        known = listed.get(spec)
        if known is None:
            known = await _described_classes(spec, index, services)
        if known is None:
            raise InvalidRequest(
                f"the classes of the classifier {spec!r} are not known; name them in `classes`",
                pointer="/classes",
            )
        common = known if common is None else [name for name in common if name in set(known)]
    return list(common or [])


async def _described_classes(spec: str, index: int, services: Services) -> list[str] | None:
    try:
        return (await services.classifiers.describe(DescribeRequest(classifier=spec))).classes
    except RequestError as error:
        # The service's pointer is for its own request, which our caller never saw.
        error.pointer = f"/classifiers/{index}"
        raise


def _check_labels(create: BugHuntCreate, classes: Sequence[str]) -> None:
    shown = ", ".join(classes[:8]) + (" …" if len(classes) > 8 else "")
    for index, label in enumerate(create.labels):
        if label not in classes:
            raise InvalidRequest(
                f"the classifiers have no common class {label!r}; they have {shown or 'none'}",
                pointer=f"/labels/{index}",
            )
    if len(classes) < 2:
        raise InvalidRequest("the classifiers share fewer than two classes; nothing can be mistaken")
    if isinstance(create.criterion, TakenFor):
        target = create.criterion.target
        if target in create.labels:
            raise InvalidRequest(
                f"the target {target!r} is a label itself; name what it is wrongly taken for",
                pointer="/criterion/target",
            )
        if target not in classes:
            raise InvalidRequest(
                f"the classifiers have no common class {target!r}; they have {shown}",
                pointer="/criterion/target",
            )


def _templates(create: BugHuntCreate, default: str) -> dict[str, str]:
    """The baseline prompt of each label, with the slot for the class."""
    templates = {}
    for label in create.labels:
        templates[label] = baseline_template(create.prompt or default, create.parents.get(label))
        check_prompt(templates[label])
    return templates


async def _examples(
    create: BugHuntCreate, prompts: dict[str, str], generation: GenerationPreset, context: RunContext
) -> dict[str, BlobRef]:
    """Draw one image of each label, with the seed of its first sample.

    Raises:
        InvalidRequest: the generator does not know a label's words.
    """
    examples: dict[str, BlobRef] = {}
    size = images_per_call(generation)
    for start in range(0, len(create.labels), size):
        labels = create.labels[start : start + size]
        asked = [
            GenerateItem(prompt=prompts[label], seed=image_seed(create.seed, label, 0)) for label in labels
        ]
        response = await context.services.editor.generate(generation.request(asked))
        for place, (label, outcome) in enumerate(zip(labels, response.outcomes, strict=True), start=start):
            try:
                examples[label] = outcome.unwrap().image
            except RequestError as error:
                raise InvalidRequest(
                    f"the generator of suite {context.suite.name!r} cannot draw {label!r}: {error.detail}",
                    pointer=f"/labels/{place}",
                ) from error
            await check_image(examples[label], context.store)
    return examples


def _notes(create: BugHuntCreate, detectable: float | None, suite: str) -> list[str]:
    notes = [
        f"suite {suite!r} has one generator: whether images of another one fail as often is not measured"
        if create.descriptions
        else "no failure found is no proof that there is none: rare scenes are hardly ever drawn",
        f"{create.held_out} held-out images prove no failure rate"
        if detectable is None
        else f"{create.held_out} held-out images prove failure rates from {100 * detectable:.0f} % on, where "
        "the label alone never fails",
    ]
    if isinstance(create.criterion, NoRelative) and not create.parents:
        notes.append("no parents are given: `no-relative` means that the label is none of the first three")
    return notes
