"""The summary of a run of edits and operations: the findings of both, and one verdict."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import TransformSummary
from counterpose_gateway.methods.stress_test.summary.headline import headline, of_edits
from counterpose_gateway.methods.stress_test.summary.verdict import STATES

OPERATIONS_BACKEND = "transform"
"""What operations are called where a finding says which backend made it."""


def edits_backend(summary: StressTestSummary) -> str | None:
    """Return the backend of a run's edits where operations stand beside them, else None."""
    if summary.transforms is None:
        return None
    preset = StressTestConfig.model_validate(summary.config).preset
    return None if preset is None else preset.backend


def with_operations_beside(edits: StressTestSummary, operations: StressTestSummary) -> StressTestSummary:
    """Return the summary of the edits with what operations cost; each classifier stands as its worst state.

    The two kinds share no correction: each family is what its own kind tested.

    Args:
        edits: the summary of all that is not an operation; its counts and costs are of all items.
        operations: the summary of the operations alone, numbered behind the edits' findings and hints.
    """
    told = operations.transforms
    if told is None:
        return edits
    told = _named_backend(told)
    joined = edits.model_copy(update={"transforms": told})
    backend = edits_backend(joined)
    verdicts = _worst([*edits.verdicts, *(_named(each, told) for each in operations.verdicts)])
    own = [of_edits(line) for line in edits.verdict.splitlines()]
    lines = [headline(verdicts), *(own[1:] if edits.verdicts else own), *operations.verdict.splitlines()]
    changes = edits.confirmation.hypotheses if edits.confirmation else 0
    changes = changes or max((each.family_size for each in edits.insights), default=0)
    lines.append(
        f"Edits ({backend}) and operations ({OPERATIONS_BACKEND}) are corrected apart: {changes} tests of "
        f"changes of words, {told.tested} of operations."
    )
    update = {
        "findings": [each.model_copy(update={"backend": backend}) for each in edits.findings],
        "verdicts": verdicts,
        "verdict": "\n".join(lines),
        "pairs_left": edits.pairs_left | operations.pairs_left,
        "least_pairs": edits.least_pairs | operations.least_pairs,
    }
    return joined.model_copy(update=update)


def _named_backend(told: TransformSummary) -> TransformSummary:
    """Say of each finding what made its images."""
    named = {"backend": OPERATIONS_BACKEND}
    figures = [each.model_copy(update=named) for each in told.figures]
    classes = told.classes
    if classes is not None:
        of_class = [each.model_copy(update=named) for each in classes.findings]
        classes = classes.model_copy(update={"findings": of_class})
    return told.model_copy(update={"figures": figures, "classes": classes})


def _named(verdict: ClassifierVerdict, told: TransformSummary) -> ClassifierVerdict:
    """A verdict on operations with the number of its finding."""
    found = (each for each in told.figures if each.classifier == verdict.classifier)
    first = next(found, None)
    broken = first is not None and verdict.state == "breaks"
    return verdict.model_copy(update={"finding": first.number if first and broken else None})


def _worst(verdicts: Sequence[ClassifierVerdict]) -> list[ClassifierVerdict]:
    """Each classifier's worst verdict, the worst classifier first; of two alike, the edits' one."""
    ordered = sorted(verdicts, key=lambda each: STATES.index(each.state))
    worst: dict[str, ClassifierVerdict] = {}
    for each in ordered:
        worst.setdefault(each.classifier, each)
    return list(worst.values())
