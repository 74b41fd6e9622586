"""Plan a bug hunt: check what it names, draw one image of each label, plan the first baseline samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from counterpose_core.bug_hunt.budget import findable_rate
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntShares
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import Suite
from counterpose_core.text.class_prompts import fill
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.methods.bug_hunt.baseline import first_baseline
from counterpose_gateway.methods.bug_hunt.estimate import most_captions, provable_rate, shares_of
from counterpose_gateway.methods.bug_hunt.held_out import first_held_out
from counterpose_gateway.methods.bug_hunt.measuring import (
    OwnDescription,
    examples_of_own,
    own_descriptions,
    own_shares,
    plan_own,
)
from counterpose_gateway.methods.bug_hunt.mixture import examples_of_mixture
from counterpose_gateway.methods.bug_hunt.photographs import Photographs, photographs_of, plan_photographs
from counterpose_gateway.records.items import Plan, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import require_quota
from counterpose_gateway.steps.classifiers import check_classifiers, common_classes, shown_classes
from counterpose_gateway.steps.examples import Example, draw_examples, examples_of
from counterpose_gateway.steps.label_images import check_mistakes, label_templates, shared_config
from counterpose_gateway.steps.parents import notes_on_parents

NO_DATASET = ""
"""A hunt is about no dataset."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request of which all is checked that needs no image.

    ``of_labels``: an example of each label; ``of_prompts``: one of each description and mixture's prompt.
    """

    classes: list[str]
    shares: HuntShares
    templates: dict[str, str]
    prompts: dict[str, str]
    shared: dict[str, Any]
    own: list[OwnDescription]
    photographs: Photographs
    of_labels: list[Example]
    of_prompts: list[Example]


async def prepare(create: BugHuntCreate, context: RunContext) -> Prepared:
    """Resolve the request as far as nothing is drawn for it; raises as `plan`."""
    request, suite = create, context.suite
    # Before the budget: of a misspelt label, no number of images is enough.
    mapped = request.label_map
    classes = await common_classes(request.classifiers, request.classes, context.services, label_map=mapped)
    _check_labels(request, classes)
    shares = None if request.descriptions else shares_of(request, suite)
    varied = 0 if shares is None else shares.varied
    require_quota(request.budget.images + most_captions(request, varied), context, "/budget/images")
    templates = label_templates(request, request.labels, classes, suite)
    own = own_descriptions(request, classes, templates)
    prompts = {label: fill(template, label) for label, template in templates.items()}
    pointers = {label: f"/labels/{place}" for place, label in enumerate(request.labels)}
    return Prepared(
        classes=classes,
        shares=shares or own_shares(request, own),
        templates=templates,
        prompts=prompts,
        shared=shared_config(request, classes, suite, context.policy),
        own=own,
        photographs=await photographs_of(request, own, context),
        of_labels=examples_of(prompts, pointers, request.seed),
        of_prompts=[*examples_of_own(own, request.seed), *examples_of_mixture(request, classes)],
    )


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
    ready = await prepare(create, context)
    own, shares, shared = ready.own, ready.shares, ready.shared
    examples = await draw_examples(ready.of_labels, shared["generation"], context)
    await check_classifiers(
        request.classifiers,
        ready.classes,
        examples[request.labels[0]],
        context.services,
        label_map=request.label_map,
    )
    await draw_examples(ready.of_prompts, shared["generation"], context)
    detectable = await asyncio.to_thread(provable_rate, request, request.held_out)
    findable = None if own else findable_rate(shares.baseline)
    config = BugHuntConfig(
        request=request,
        **shared,
        templates=ready.templates,
        prompts=ready.prompts,
        examples=examples,
        shares=shares,
        detectable=detectable,
        findable=findable,
        generator_gap=suite.generator_gap,
        notes=[
            *_notes(request, detectable, findable, suite),
            *notes_on_parents(request.criterion, request.labels, shared["parents"]),
        ],
    )
    # Before generated images, so that the next stage follows these.
    shown = plan_photographs(ready.photographs)
    images = plan_own(config, own, first_held_out(config)) if own else first_baseline(config)
    planned = chain(shown, images)
    return Plan(NO_DATASET, config, list(numbered(planned)))


def _check_labels(create: BugHuntCreate, classes: Sequence[str]) -> None:
    for index, label in enumerate(create.labels):
        if label not in classes:
            raise InvalidRequest(
                f"the classifiers have no common class {label!r}{did_you_mean(label, classes)}; they have "
                f"{shown_classes(classes)}",
                pointer=f"/labels/{index}",
            )
    check_mistakes(create.criterion, classes, create.labels)


def _notes(
    create: BugHuntCreate, detectable: float | None, findable: float | None, suite: Suite
) -> list[str]:
    notes = [
        f"suite {suite.name!r} has one generator: whether images of another one fail as often is not measured"
        if create.descriptions
        else "no failure found is no proof that there is none: rare scenes are hardly ever drawn",
        f"{create.held_out} held-out images prove no failure rate"
        if detectable is None
        else f"{create.held_out} held-out images prove failure rates from {100 * detectable:.0f} % on, where "
        "the label alone never fails",
        f"rates are those of images of this generator, not of yours: how far these differ was not measured "
        f"for suite {suite.name!r}; check a bug on photographs"
        if suite.generator_gap is None
        else "rates are those of images of this generator, not of yours: “at least” allows for how far "
        f"rates in the world of suite {suite.name!r} were from these (a standard deviation of "
        f"{suite.generator_gap:g} of the log-odds), and holds in such a world",
    ]
    if findable is not None:
        notes.append(
            f"a label that fails on fewer than {100 * findable:.2g} % of its images may show no two "
            "failures, without which nothing is described"
        )
    if create.mixture is not None:
        notes.append(
            "the rate of the mixture is that of its prompts by the shares that you gave: whether users meet "
            "them as often, and whether other images of them fail as often, is not measured"
        )
    return notes
