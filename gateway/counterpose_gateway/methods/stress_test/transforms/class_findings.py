"""What operations cost single classes: tests of those that have enough images, and a count of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from counterpose_core.contract.transforms import ClassFinding, ClassTests
from counterpose_core.stress_test.operations import LevelTest, PairedAnswers, least_units, operation_tests
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers
from counterpose_gateway.methods.stress_test.transforms.sentences import LOSES

FLIPPED = 12
"""Images that are listed of each finding: those of the surest answers before."""

Tested = tuple[str, str, str]
"""A classifier, an operation and a class."""


def class_tests(
    answered: Mapping[str, OperationAnswers],
    estimator: LanceEstimator,
    *,
    after: int = 0,
    least_loss: float = 0.0,
) -> ClassTests:
    """Test every class that has enough independent images, each level of an operation in order.

    The findings are numbered behind ``after`` others, those of all classes together.

    As for all classes together, the hardest level is tested first, so no level is chosen by its outcome; the
    correction is over all classifiers, operations and classes that are tested, a family of their own.
    """
    parts: dict[Tested, OperationAnswers] = {
        (name, operation, label): part
        for name, found in answered.items()
        for operation in found.operations
        for label, part in found.by_class(operation).items()
    }
    sizes = {key: len(set(part.groups.values())) for key, part in parts.items()}
    least = least_units(list(sizes.values()), len({key[:2] for key in parts}), least_loss)
    tested = [key for key, size in sizes.items() if size >= least]
    tests = operation_tests(
        {key: _levels(parts[key], key[1]) for key in tested},
        {key: estimator.generator(f"operation/{key[0]}/{key[1]}/class/{key[2]}") for key in tested},
        least_loss,
    )
    findings = [finding for key in tested if (finding := _finding(key, parts[key], tests[key])) is not None]
    findings.sort(key=lambda each: -(each.loss.estimate or 0.0))
    largest = defaultdict[str, int](int)
    for (_, _, label), size in sizes.items():
        largest[label] = max(largest[label], size)
    classes = len({label for _, _, label in tested})
    return ClassTests(
        least=least,
        classes=classes,
        too_small=len(largest) - classes,
        tested=len(tested),
        findings=[each.model_copy(update={"number": after + at}) for at, each in enumerate(findings, 1)],
        sentence=_sentence(least, classes, largest, [after + at for at in range(1, len(findings) + 1)]),
    )


def _levels(part: OperationAnswers, operation: str) -> dict[int, PairedAnswers]:
    return {level: part.paired((operation, level)) for level in part.levels(operation)}


def _finding(key: Tested, part: OperationAnswers, tests: Sequence[LevelTest]) -> ClassFinding | None:
    """The loss of a class at the easiest level that shows one, or None."""
    shown = next((test for test in tests if test.shown), None)
    if shown is None:
        return None
    name, operation, label = key
    return ClassFinding(
        classifier=name,
        operation=operation,
        state=part.shown,
        object_class=label,
        level=shown.level,
        images=len(part.groups),
        lost=shown.answers.lost,
        gained=shown.answers.gained,
        loss=shown.loss,
        p=shown.p,
        flipped=part.flipped((operation, shown.level), FLIPPED),
        sentence=(
            f"{name} {LOSES[part.shown]} {shown.answers.lost} of {len(part.groups)} of the class {label!r} "
            f"once the image {part.row(operation).in_words(shown.level, scaled=part.scaled)}, "
            f"{shown.answers.gained} the other way."
        ),
    )


def _sentence(least: int, classes: int, largest: Mapping[str, int], numbers: Sequence[int]) -> str:
    most = max(largest.values(), default=0)
    if not classes:
        return (
            f"No class has {least} independent images, so nothing can be said of a class; "
            f"the largest has {most}."
        )
    small = len(largest) - classes
    of_rest = f"; of {small} with fewer nothing can be said" if small else ""
    if len(numbers) == 1:
        shown = f"1 loss of a class is shown (finding {numbers[0]})"
    else:
        of = f" (findings {numbers[0]} to {numbers[-1]})" if numbers else ""
        shown = f"{len(numbers) or 'no'} losses of a class are shown{of}"
    have = "has" if classes == 1 else "have"
    return f"{classes} of {len(largest)} classes {have} {least} independent images or more: {shown}{of_rest}."
