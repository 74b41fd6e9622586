"""What operations cost single classes: tests of those that have enough images, and a count of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from counterpose_core.contract.transforms import ClassFinding, ClassTests
from counterpose_core.stress_test.operations import LevelTest, PairedAnswers, least_units, operation_tests
from counterpose_core.transforms.table import OPERATIONS
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers

FLIPPED = 12
"""Images that are listed of each finding: those of the surest answers before."""

Tested = tuple[str, str, str]
"""A classifier, an operation and a class."""


def class_tests(answered: Mapping[str, OperationAnswers], estimator: LanceEstimator) -> ClassTests:
    """Test every class that has enough independent images, each level of an operation in order.

    As for all classes together, the hardest level is tested first, so no level is chosen by its outcome; the
    correction is over all classifiers, operations and classes that are tested, a family of their own.
    """
    photographs: dict[Tested, list[str]] = {
        (name, operation, label): sources
        for name, found in answered.items()
        for operation in found.operations
        for label, sources in found.by_class(operation).items()
    }
    sizes = {
        key: len({answered[key[0]].groups[source] for source in sources})
        for key, sources in photographs.items()
    }
    least = least_units(list(sizes.values()), len({key[:2] for key in photographs}))
    tested = [key for key, size in sizes.items() if size >= least]
    tests = operation_tests(
        {key: _levels(answered[key[0]], key[1], photographs[key]) for key in tested},
        {key: estimator.generator(f"operation/{key[0]}/{key[1]}/class/{key[2]}") for key in tested},
    )
    findings = [
        finding
        for key in tested
        if (finding := _finding(key, photographs[key], tests[key], answered[key[0]])) is not None
    ]
    largest = defaultdict[str, int](int)
    for (_, _, label), size in sizes.items():
        largest[label] = max(largest[label], size)
    classes = len({label for _, _, label in tested})
    return ClassTests(
        least=least,
        classes=classes,
        too_small=len(largest) - classes,
        tested=len(tested),
        findings=sorted(findings, key=lambda each: -(each.loss.estimate or 0.0)),
        sentence=_sentence(least, classes, largest, len(findings)),
    )


def _levels(found: OperationAnswers, operation: str, sources: Sequence[str]) -> dict[int, PairedAnswers]:
    return {level: found.paired((operation, level), sources) for level in found.levels(operation)}


def _finding(
    key: Tested, sources: Sequence[str], tests: Sequence[LevelTest], found: OperationAnswers
) -> ClassFinding | None:
    """The loss of a class at the easiest level that shows one, or None."""
    shown = next((test for test in tests if test.shown), None)
    if shown is None:
        return None
    name, operation, label = key
    return ClassFinding(
        classifier=name,
        operation=operation,
        object_class=label,
        level=shown.level,
        images=len(sources),
        lost=shown.answers.lost,
        gained=shown.answers.gained,
        loss=shown.loss,
        p=shown.p,
        flipped=found.flipped((operation, shown.level), FLIPPED, sources),
        sentence=(
            f"{name} loses {shown.answers.lost} of {len(sources)} of the class {label!r} once the image "
            f"{OPERATIONS[operation].in_words(shown.level)}, {shown.answers.gained} the other way."
        ),
    )


def _sentence(least: int, classes: int, largest: Mapping[str, int], findings: int) -> str:
    most = max(largest.values(), default=0)
    if not classes:
        return (
            f"No class has {least} independent images, so nothing can be said of a class; "
            f"the largest has {most}."
        )
    small = len(largest) - classes
    of_rest = f"; of {small} with fewer nothing can be said" if small else ""
    shown = (
        "no loss of a class is shown"
        if not findings
        else f"{findings} {'loss of a class is' if findings == 1 else 'losses of a class are'} shown"
    )
    return f"{classes} of {len(largest)} classes have {least} independent images or more: {shown}{of_rest}."
