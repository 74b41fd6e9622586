"""Records and card of an exported run of operations: each photograph at its working size, and changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from counterpose_core.contract.runs import Item, TransformedImage
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.errors import InternalError
from counterpose_core.types import Estimate
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.records import Origin, Record, Source, answers_of
from counterpose_gateway.methods.stress_test.transforms.pairs import change_of, changed_images

BASE = "base"
"""The shift of a photograph with nothing changed but its size."""


def operation_records(summary: StressTestSummary, items: Iterable[Item]) -> Iterator[Record]:
    """Yield the control of each photograph, and what each operation at each level made of it.

    Images travel as recipes; the export makes them again. Placebos are left out: they show no change.
    """
    plan = StressTestConfig.model_validate(summary.config).transforms
    if plan is None:
        raise InternalError("the run has no operations")
    for item, control, made in changed_images(items, plan):
        origin: Origin = "operation" if plan.given is None else "photograph"
        if item.stage == 1:
            yield _record(summary.run_id, item, control, control, origin)
        yield from (_record(summary.run_id, item, each, control, origin) for each in made)


def _record(
    run: str, item: Item, made: TransformedImage, control: TransformedImage, origin: Origin
) -> Record:
    """``image_source`` is the operation, ``artifact`` the recipe; the score ``level`` is the level."""
    is_changed = made is not control
    source = Source(
        image=control.recipe, caption="", changed=change_of(made), answers=answers_of(control.predictions)
    )
    return Record(
        image=made.recipe,
        pixels=made.pixels,
        item=item.id,
        class_name=item.label,
        shift=change_of(made) if is_changed else BASE,
        image_source=made.operation,
        run=run,
        scores={"level": float(made.level), **_scores("truth", made.predictions)}
        | (_scores("truth_before", control.predictions) if is_changed else {}),
        answers=answers_of(made.predictions),
        source=source if is_changed else None,
        origin=origin if is_changed else "photograph",
    )


def _scores(name: str, predictions: Mapping[str, Scored]) -> dict[str, float]:
    return {f"{name} {classifier}": each.score for classifier, each in predictions.items()}


def operation_card(summary: StressTestSummary) -> Card:
    """Describe the images of a run of operations, and what they cost each classifier with nothing changed."""
    of = summary.transforms
    if of is not None and of.given is not None:
        return Card(
            title=f"Given pairs of {summary.dataset}",
            what=(
                "Photographs beside images in which one thing was changed, to see what makes a network fail. "
                "`shift` is the change with its level, and `base` what it is held against."
            ),
            made=f"{of.given} Tested by Counterpose's run `{summary.run_id}`, seed {summary.seed}.",
            figures=_of_controls(of),
        )
    return Card(
        title=f"Operations on {summary.dataset}",
        what=(
            "Photographs with one operation applied, to see which changes make an image classifier fail. "
            "`shift` is the operation with its level, and `base` the same photograph with nothing changed."
        ),
        made=(
            "Each photograph was reduced to its working size, and each operation was carried out on it at "
            f"each level, without any network. Counterpose's run `{summary.run_id}`, seed {summary.seed}, "
            f"suite `{summary.config.get('suite', '')}`."
        ),
        figures=_of_controls(of),
    )


def _of_controls(of: TransformSummary | None) -> dict[str, Estimate]:
    controls = {} if of is None else of.controls
    return {f"accuracy of {name} with nothing changed": each for name, each in controls.items()}
