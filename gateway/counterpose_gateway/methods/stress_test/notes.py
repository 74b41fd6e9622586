"""What a user should know before a stress test works: that its images are too few for any test."""

from __future__ import annotations

import math
from collections.abc import Sequence

from counterpose_core.commands import LEAST_ADAPTIVE
from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.errors import ClassMapMismatch
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.methods.stress_test.summary.hypotheses import CLASSIFIERS
from counterpose_gateway.records.source_table import SourceTable

_ROUNDING = 1e-9


def planning_notes(
    create: StressTestCreate, sources: SourceTable, confirmation: ConfirmationPlan | None
) -> list[str]:
    """Say what the run cannot show, however it comes out; empty where it can do all."""
    notes: list[str] = []
    units = sources.number_of_units()
    needed = images_needed(create)
    if units < needed:
        what = "image" if units == len(sources) else "group of images"
        notes.append(
            f"no test can show anything on {_count(units, what)}: the easiest takes {needed} whose edits and "
            "placebos are all kept"
        )
    if confirmation is not None and confirmation.reason is not None:
        notes.append(f"no finding can be confirmed: {confirmation.reason}")
    return notes


def require_classes(sources: SourceTable, classes: Sequence[str]) -> None:
    """Refuse further labels that are no class of the dataset.

    Raises:
        ClassMapMismatch: there is one.
    """
    for labels in sources.label_sets:
        for label in labels:
            if label not in classes:
                raise ClassMapMismatch(
                    f"an image has the further label {label!r}{did_you_mean(label, classes)}, which is no "
                    "class of the dataset; correct its labels, or create the dataset with all classes",
                    pointer="/dataset",
                )


def severity_notes(plan: TransformPlan, images: int) -> list[str]:
    """Say that an adaptive search saves little on so few independent images; empty where it saves."""
    if plan.severity is None or not plan.is_adaptive or images >= LEAST_ADAPTIVE:
        return []
    share, of = f"{plan.severity.full_share:.0%}", _count(images, "image")
    return [
        f"severity 'adaptive' asks every level of {share} of {of} and saves little below {LEAST_ADAPTIVE}; "
        "'grid' tells the same more narrowly, and can be frozen"
    ]


def images_needed(create: StressTestCreate) -> int:
    """Return the images without which no p of this run can be small enough, even of all edits together.

    Each image's placebo and k edits have k + 1 labellings, so n images give a p of (k + 1)^-n at least; the
    easiest test has one family of losses and gains of every classifier.
    """
    labellings = 1 + max(create.max_edits_per_image, len(create.interventions), 1)
    level = CLASSIFIERS.level / (2 * max(1, len(create.classifiers)))
    return math.ceil(-math.log(level) / math.log(labellings) - _ROUNDING)


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {'groups of images' if noun.startswith('group') else noun + 's'}"


def require_several_classes(dataset: Dataset) -> None:
    """Refuse a dataset of one class.

    Raises:
        ClassMapMismatch: a classifier that may only choose one class is always right.
    """
    if len(dataset.classes) == 1:
        raise ClassMapMismatch(
            f"dataset {dataset.name!r} has one class, {dataset.classes[0]!r}, so every answer would be "
            "right; create it with all classes that the classifiers choose among",
            pointer="/dataset",
        )
