"""What classes are: the request's parents, and WordNet's where the classes are ImageNet-1k's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.failure_criteria import Criterion, NoRelative
from counterpose_core.text.imagenet_hierarchy import are_imagenet, imagenet_parents
from counterpose_gateway.steps.classifiers import shown_classes


def failure_parents(criterion: Criterion, given: Mapping[str, str], classes: Sequence[str]) -> dict[str, str]:
    """Return the parent by which `no-relative` compares each class; a class without one is its own.

    ``given``: the request's parents, which come first.
    """
    if not isinstance(criterion, NoRelative):
        return dict(given)
    known = imagenet_parents(classes, criterion.levels) if are_imagenet(classes) else {}
    return known | dict(given)


def prompt_parents(labels: Sequence[str], given: Mapping[str, str], classes: Sequence[str]) -> dict[str, str]:
    """Return what the baseline's prompt calls each label: always what is next above it."""
    known = imagenet_parents(labels, distinct=False) if are_imagenet(classes) else {}
    return known | dict(given)


def notes_on_parents(criterion: Criterion, labels: Sequence[str], parents: Mapping[str, str]) -> list[str]:
    """Say which labels have no parent where the criterion asks for it."""
    if not isinstance(criterion, NoRelative):
        return []
    without = [label for label in labels if label not in parents]
    if not without:
        return []
    return [
        f"no parent is known of {shown_classes(without)}: `no-relative` means there that the label is none "
        "of the first three"
    ]
