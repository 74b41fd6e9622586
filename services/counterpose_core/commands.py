"""Commands that answers suggest as the next step, the same in reports, in Markdown and in the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.interventions import ARROW, Intervention, interventions_of
from counterpose_core.contract.proofs import AnyProof
from counterpose_core.contract.recipes import NATIVE
from counterpose_core.contract.spending import SpendingLimits
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_core.contract.tasks import CLASSIFICATION
from counterpose_core.contract.transforms import TransformChoice
from counterpose_core.errors import InvalidRequest

SHORT_ID = 8
"""Digits of an id that a person reads and types; a gateway has far fewer than 2**32 runs."""

PROVE_IMAGES = 20
"""Images of a proof unless one asks for another number."""

LEAST_ADAPTIVE = 96
"""Images from which on an adaptive search takes at most 0.6 of the full grid where levels are in order."""


def prove_command(run_id: str, number: int, images: int = PROVE_IMAGES) -> str:
    """The command that makes more pairs of images for a finding of a run."""
    return f"counterpose prove {run_id[:SHORT_ID]} --finding {number} --images {images}"


def apply_command(run_id: str, number: int) -> str:
    """The command that makes the change of a finding in every image."""
    return f"counterpose apply {run_id[:SHORT_ID]} --finding {number}"


@dataclass(frozen=True)
class NextStep:
    """A command, and what it is for."""

    title: str
    command: str


def is_provable(finding: Finding) -> bool:
    """Whether more images could settle a finding: it is open, and names words to change."""
    return finding.state in ("suspected", "cannot-tell") and bool(finding.removed or finding.added)


def next_step(summary: StressTestSummary, finding: Finding) -> NextStep | None:
    """What would settle a finding of a run, or else show it in every image.

    None where it has no number among those of the run's own thresholds, or is of given pairs. Where the run's
    dataset has too few pairs left of it, other images are asked for. Two conditions, or various words, are
    brought in by no one change: they take a new run on more images.
    """
    given = summary.transforms is not None and summary.transforms.given is not None
    if not finding.number or summary.judged_again or given:
        return None
    if finding.conjunction:
        return _run_again("Only a new run tests two conditions together again", summary, finding)
    if not (finding.removed or finding.added):
        return _run_again("Its edits change various words, and a larger run may tell which", summary, finding)
    run_id = summary.run_id
    if is_provable(finding):
        left, least = summary.pairs_left.get(finding.number), summary.least_pairs.get(finding.number, 1)
        if left is None or (left >= least and finding.number not in summary.hopeless):
            images = PROVE_IMAGES if left is None else min(PROVE_IMAGES, left)
            return NextStep("Next", prove_command(run_id, finding.number, images))
        proof = prove_command(run_id, finding.number)
        # An operation is not about one class.
        of = f" of {finding.object_class!r}" if finding.object_class else ""
        few = f"Too few images{of} are left ({left}, and a proof takes {least}); add some, then"
        if left >= least:
            few = f"The images left{of} would not decide it; add some, then"
        none = f"No image{of} is left to prove it on; add some, then"
        return NextStep(few if left else none, f"{proof} --dataset FOLDER")
    return NextStep("Next, make this change in every image", apply_command(run_id, finding.number))


def operation_proof_command(summary: StressTestSummary, number: int) -> str:
    """The command that proves an operation's finding, on other images where its dataset has none left."""
    command = prove_command(summary.run_id, number)
    return f"{command} --dataset FOLDER" if summary.pairs_left.get(number) == 0 else command


def operation_steps(summary: StressTestSummary) -> list[NextStep]:
    """What to do next with what operations cost: find the level, decide what is open, compare another model.

    Nothing of given pairs, of which no more can be made here, nor of a proof.
    """
    told = summary.transforms
    if told is None or told.given is not None or summary.config.get("operation_proof"):
        return []
    steps: list[NextStep] = []
    with suppress(ValidationError):
        request = StressTestCreate.model_validate(summary.config.get("request"))
        choice = request.transforms or TransformChoice()
        if choice.severity is None and any(each.state == "breaks" for each in told.figures):
            # A run that edits captions, too, asks every level.
            plan = "grid" if told.images < LEAST_ADAPTIVE or summary.edit_types else "adaptive"
            asked = choice.model_copy(update={"severity": plan, "levels": None})
            again = repeat_command(request.model_copy(update={"transforms": asked}))
            steps.append(NextStep("Next, from which level on it fails", again))
    if still_open := next((each for each in told.figures if each.state == "cannot-tell"), None):
        proof = operation_proof_command(summary, still_open.number)
        steps.append(NextStep(f"Next, decide finding {still_open.number} on more images", proof))
    if told.severity is None or told.severity.plan.plan == "grid":
        freeze = f"counterpose freeze {summary.run_id[:SHORT_ID]} regression-set.json"
        steps.append(NextStep("Next, freeze these images to compare other models on them", freeze))
    return steps


def _run_again(why: str, summary: StressTestSummary, finding: Finding) -> NextStep | None:
    """The run's own command, on all images; None of a request that this version cannot read."""
    try:
        request = StressTestCreate.model_validate(summary.config.get("request"))
    except ValidationError:
        return None
    title = f"{why}: add images of {finding.object_class!r} to dataset {request.dataset!r}, then"
    return NextStep(title, repeat_command(request.model_copy(update={"limit": None})))


FUNCTION = "py:MODULE:FUNCTION"
"""Stands for an object of a program, which no command line can name."""

PUBLISHED = "timm:resnet50"
"""A classifier that every suite which allows timm has."""

_FLAGS = {
    "edit_types": "--edit-type",
    "max_edits_per_image": "--max-edits-per-image",
    "lance_r_edits_per_image": "--lance-r-edits-per-image",
    "preset": "--preset",
    "selection": "--selection",
    "strength": "--strength",
    "limit": "--limit",
    "refused_words": "--refuse-word",
    "exclude": "--exclude",
    "near_duplicates": "--near-duplicates",
    "confirm_share": "--confirm-share",
    "preservation": "--preservation",
    "refused_faults": "--refuse-fault",
    "judges": "--judge",
    "region": "--region",
}
"""The options of ``counterpose stress-test`` that take a field's value, or each of its values, as it is."""


def repeat_command(request: StressTestCreate, proof: AnyProof | None = None) -> str:
    """The command that creates a stress test again, with every option that is not the default.

    Of a run that proves a finding, the one that proves it again on as many images.
    """
    seed = ("--seed", str(request.seed))
    if proof is not None:
        proven = prove_command(proof.parent, proof.number, proof.images)
        return f"{proven} {shlex.join(['--dataset', request.dataset, *seed])}"
    return shlex.join(["counterpose", "stress-test", request.dataset, *_options(request), *seed])


def operations_command(request: StressTestCreate) -> str:
    """The command that tests the same images by operations, which need no generator, on this machine.

    A classifier of the suite itself, which another one lacks, has a published one in its place.
    """
    functions = request.function_specs
    names = [name if ":" in name or name in functions else PUBLISHED for name in request.classifiers]
    kept = request.model_dump(
        include={"dataset", "label_map", "task", "limit", "exclude", "seed", "function_specs"}
    )
    asked = StressTestCreate.model_validate(kept | {"classifiers": list(dict.fromkeys(names))})
    return " && ".join(("counterpose down", f"{repeat_command(asked)} --suite photographs"))


def repeat_notes(request: StressTestCreate) -> list[str]:
    """What the command of `repeat_command` cannot say."""
    objects = [name for name, spec in request.function_specs.items() if spec is None]
    notes = [f"{name!r} was an object of a program: write a function for {FUNCTION}" for name in objects]
    unsaid = [edit.in_words() for edit in request.interventions if not _is_written(edit)]
    if request.spending is not None and request.spending.prices:
        notes.append("it had prices: add --prices FILE with your own")
    return notes + [f"no --edit says that {edit}: a program passed it" for edit in unsaid]


def _options(request: StressTestCreate) -> Iterator[str]:
    for name in request.classifiers:
        yield from ("--classifier", request.function_specs.get(name, name) or FUNCTION)
    for edit in filter(_is_written, request.interventions):
        yield from ("--edit", _written(edit))
    for field, flag in _FLAGS.items():
        value: Any = getattr(request, field)
        if value != StressTestCreate.model_fields[field].get_default(call_default_factory=True):
            for one in value if isinstance(value, list) else [value]:
                yield from (flag, str(one))
    yield from _of_operations(request.transforms)
    yield from _of_budget(request.spending or SpendingLimits())
    yield from _of_answers(request)
    for name, threshold in request.thresholds.given().items():
        yield from ("--threshold", f"{name}={str(threshold).lower()}")
    if not request.confirm:
        yield "--no-confirm"
    if request.outside_suite == "continue":
        yield "--anyway"


def _of_answers(request: StressTestCreate) -> Iterator[str]:
    if request.label_map:
        yield from ("--label-map", json.dumps(request.label_map, ensure_ascii=False))
    if request.task != CLASSIFICATION:
        yield from ("--task", request.task.model_dump_json())


def _of_budget(limits: SpendingLimits) -> Iterator[str]:
    for name in ("usd", "images"):
        if (most := getattr(limits, name)) is not None:
            yield from (f"--budget-{name}", str(most))


def _written(edit: Intervention) -> str:
    return f"{edit.removed}{ARROW}{edit.added}"


def _of_operations(choice: TransformChoice | None) -> Iterator[str]:
    if choice is None:
        return
    for name in choice.operations or ():
        yield from ("--operation", name)
    for level in choice.levels or ():
        yield from ("--level", str(level))
    for label, names in choice.excluded.items():
        for name in names:
            yield from ("--exclude-operation", f"{label}={name}")
    for name in ("among", "backgrounds", "masks", "severity", "severity_loss", "least_loss", "pairs"):
        value: object = getattr(choice, name)
        if value != TransformChoice.model_fields[name].get_default():
            yield from (f"--{name.replace('_', '-')}", str(value))
    yield from ("--size", NATIVE if choice.size is None else str(choice.size))


def _is_written(edit: Intervention) -> bool:
    # A comma parts choices, so no words with a comma can be typed.
    try:
        return interventions_of([_written(edit)]) == [edit]
    except InvalidRequest:
        return False
