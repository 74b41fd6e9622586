"""Runs that generate images of labels: what is checked and fixed before their first image is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpose_core.bug_hunt.descriptions import baseline_template
from counterpose_core.contract.failure_criteria import Criterion, TakenFor
from counterpose_core.contract.label_images import LabelImagesConfig, LabelImagesCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import Suite
from counterpose_core.text.class_prompts import check_prompt
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.text.word_policy import WordPolicy
from counterpose_gateway.steps.classified_samples import Judge
from counterpose_gateway.steps.classifiers import shown_classes
from counterpose_gateway.steps.generation import generation_of
from counterpose_gateway.steps.parents import failure_parents, prompt_parents
from counterpose_gateway.version import VERSIONS


def check_mistakes(criterion: Criterion, classes: Sequence[str], labels: Sequence[str]) -> None:
    """Check that images of the labels can be mistaken as the criterion says.

    Raises:
        InvalidRequest: there are fewer than two classes; or the target is a label itself, or no class, with
            the pointer ``/criterion/target``.
    """
    if len(classes) < 2:
        raise InvalidRequest("the classifiers share fewer than two classes; nothing can be mistaken")
    if not isinstance(criterion, TakenFor):
        return
    target, pointer = criterion.target, "/criterion/target"
    if target in labels:
        raise InvalidRequest(
            f"the target {target!r} is a label itself; name what it is wrongly taken for", pointer=pointer
        )
    if target not in classes:
        raise InvalidRequest(
            f"the classifiers have no common class {target!r}{did_you_mean(target, classes)}; they have "
            f"{shown_classes(classes)}",
            pointer=pointer,
        )


def label_templates(
    create: LabelImagesCreate, labels: Sequence[str], classes: Sequence[str], suite: Suite
) -> dict[str, str]:
    """Return the prompt of each label alone, with the slot for the class.

    Raises:
        InvalidRequest, PromptTooLong: the request's prompt has no such slot, or too many words.
    """
    parents = prompt_parents(labels, create.parents, classes)
    templates = {}
    for label in labels:
        templates[label] = baseline_template(create.prompt or suite.editor.photo_prompt, parents.get(label))
        check_prompt(templates[label])
    return templates


def shared_config(
    create: LabelImagesCreate, classes: Sequence[str], suite: Suite, policy: WordPolicy
) -> dict[str, Any]:
    """Return the fields of `LabelImagesConfig` that follow from request, classes, suite and policy.

    Raises:
        InvalidRequest: see `generation_of`.
    """
    preset = suite.editor.hunt_generation or suite.editor.generation
    return {
        "suite": suite.name,
        "generation": generation_of(suite.editor, preset, create),
        "models": {
            "editor": suite.editor.model,
            "scorer": suite.scorer.clip,
            "captioner": suite.captioner.model,
        },
        "versions": VERSIONS,
        "classes": list(classes),
        "parents": failure_parents(create.criterion, create.parents, classes),
        "clip": suite.scorer.checkpoint or suite.scorer.clip,
        "objectionable": suite.scorer.objectionable,
        "policy_words": list(policy.phrases),
    }


def judge_of(config: LabelImagesConfig, request: LabelImagesCreate) -> Judge:
    """Return who answers, and which answers are failures."""
    return Judge(request.classifiers, config.classes, request.criterion, parents_of(config, request))


def parents_of(config: LabelImagesConfig, request: LabelImagesCreate) -> Mapping[str, str]:
    """Return the parents that the criterion compares; an older run's configuration has none of its own."""
    return config.parents or request.parents
