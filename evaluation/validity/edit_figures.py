"""Edits judged by the oracle: by type, by seen or withheld combinations, and before and after the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import EDIT_TYPES, Estimate
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.scene import Scene, is_withheld

from .changes import Change, by_source
from .judging import Judgement
from .measures import clustered_share
from .report import Apart, EditFigures, FilterFigures, Selection
from .truth import Truth


def edit_figures(
    planned: Sequence[Item], judgements: Mapping[str, Judgement], generator: np.random.Generator
) -> EditFigures:
    """Figures of some planned edits; an edit that never became an image counts as planned and not kept."""
    ended = [item for item in planned if item.state in ("done", "filtered")]
    made = [judgements[item.id] for item in ended if item.id in judgements]

    def of(measure: Callable[[Judgement], bool], *, kept: bool = False) -> Estimate:
        chosen = [one for one in made if one.kept or not kept]
        return clustered_share(((one.source, measure(one)) for one in chosen), generator)

    return EditFigures(
        kept=clustered_share(((item.item_group, item.state == "done") for item in ended), generator),
        success=of(lambda one: one.success, kept=True),
        fidelity=of(lambda one: one.fidelity, kept=True),
        label=of(lambda one: one.label, kept=True),
        success_unfiltered=of(lambda one: one.success),
        fidelity_unfiltered=of(lambda one: one.fidelity),
        label_unfiltered=of(lambda one: one.label),
        text_success=of(lambda one: one.text_success),
    )


def by_type(
    items: Sequence[Item], judgements: Mapping[str, Judgement], generator: np.random.Generator
) -> dict[str, EditFigures]:
    """Figures of each edit type, and of all together."""
    planned = [item for item in items if item.kind == "edit"]
    groups = [(name, [item for item in planned if item.edit_type == name]) for name in EDIT_TYPES]
    return {
        name: edit_figures(group, judgements, generator)
        for name, group in [*groups, ("all", planned)]
        if group
    }


def by_novelty(
    items: Sequence[Item],
    judgements: Mapping[str, Judgement],
    scenes: Mapping[str, Scene],
    generator: np.random.Generator,
) -> dict[str, EditFigures]:
    """Figures of made edits between combinations the generating models saw in training, and of others."""
    made = [item for item in items if item.kind == "edit" and item.id in judgements]
    withheld = [_touches_withheld(item, scenes[item.source_image]) for item in made]
    return {
        name: edit_figures(
            [item for item, held in zip(made, withheld, strict=True) if held == wanted], judgements, generator
        )
        for name, wanted in (("seen", False), ("withheld", True))
    }


def _touches_withheld(item: Item, scene: Scene) -> bool:
    assert item.result is not None
    after = scene
    for name, value in parse(item.result.edited_caption or "").items():
        if name != "object_class":
            after = after.changed(name, value)
    return is_withheld(scene) or is_withheld(after)


def image_gate(judgements: Iterable[Judgement], generator: np.random.Generator) -> FilterFigures:
    """The image gate against the oracle, over all edits that became images."""
    made = [one for one in judgements if one.edit_type in EDIT_TYPES]
    return FilterFigures(
        precision=clustered_share(((one.source, one.good) for one in made if one.kept), generator),
        recall=clustered_share(((one.source, one.kept) for one in made if one.good), generator),
    )


def mean_by_change(
    changes: Iterable[Change], value: Callable[[Change], float], generator: np.random.Generator
) -> Estimate:
    """The mean of a value of edits, each source weighing 1."""
    return bootstrap_mean(by_source((one.source, value(one)) for one in changes).tolist(), generator)


def over_models(truths: Mapping[str, Truth]) -> Callable[[Change], float]:
    """The true drop of an edit, averaged over the classifiers."""
    return lambda change: float(np.mean([change.true(truth) for truth in truths.values()]))


def selection(
    items: Sequence[Item],
    changes: Sequence[Change],
    truths: Mapping[str, Truth],
    generator: np.random.Generator,
) -> dict[str, Selection]:
    """True drops before and after the gate: whether it keeps harmless edits rather than harmful ones.

    ``unmade`` counts planned edits without a true drop: they never became an image, or did not ask for
    exactly one attribute.
    """
    true = over_models(truths)
    found: dict[str, Selection] = {}
    for name in (*EDIT_TYPES, "all"):
        mine = [one for one in changes if name in (one.edit_type, "all")]
        planned = sum(item.kind == "edit" and name in (item.edit_type, "all") for item in items)
        found[name] = Selection(
            made=mean_by_change(mine, true, generator),
            kept=mean_by_change([one for one in mine if one.kept], true, generator),
            unmade=planned - len(mine),
        )
    return found


def drops_apart(
    changes: Sequence[Change],
    scenes: Sequence[Scene],
    truths: Mapping[str, Truth],
    generator: np.random.Generator,
) -> dict[str, Apart]:
    """Estimated and true drops of kept edits, averaged over classifiers: seen and withheld combinations."""
    true = over_models(truths)

    def estimated(change: Change) -> float:
        return float(np.mean([change.estimated(name) for name in truths]))

    found: dict[str, Apart] = {}
    for name, wanted in (("seen", False), ("withheld", True)):
        mine = [one for one in changes if one.kept and one.is_withheld(scenes) == wanted]
        found[name] = Apart(
            estimated=mean_by_change(mine, estimated, generator),
            true=mean_by_change(mine, true, generator),
            mean_absolute_error=mean_by_change(
                mine,
                lambda one: float(
                    np.mean([abs(one.estimated(name) - one.true(truth)) for name, truth in truths.items()])
                ),
                generator,
            ),
        )
    return found
