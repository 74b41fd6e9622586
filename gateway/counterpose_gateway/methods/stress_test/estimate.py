"""What a stress test would take and could prove: its images divided as a run would, and no item created."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from counterpose_core.contract.confirmation import ConfirmationScope
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_test_estimates import (
    ProvableClass,
    StressTestEstimate,
    StressTestQuestion,
)
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.stress_test.confirmation import (
    LEAST_REDRAWN,
    MOST_DRAWS,
    MOST_PAIRS,
    MOST_REDRAWN_PAIRS,
)
from counterpose_core.stress_test.item_counts import edits_per_source
from counterpose_core.stress_test.operations import least_lost
from counterpose_core.stress_test.provable import POWER, SHARE_KEPT, provable_hypotheses, provable_share
from counterpose_core.stress_test.screening import has_plenty, least_pairs, most_hypotheses
from counterpose_core.transforms.table import operation
from counterpose_gateway.methods.stress_test.confirm.captioned import MOST_REDRAWN
from counterpose_gateway.methods.stress_test.division import Division
from counterpose_gateway.methods.stress_test.plan import prepare
from counterpose_gateway.methods.stress_test.prepared import Prepared
from counterpose_gateway.methods.stress_test.screen.suite_fit import look_ahead
from counterpose_gateway.methods.stress_test.spending import most_spent
from counterpose_gateway.methods.stress_test.transforms.plan import materials_of
from counterpose_gateway.methods.stress_test.transforms.process import images_of
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.earlier_rates import EARLIER_RUNS, minutes_of, seconds_per_item
from counterpose_gateway.runs.submission import without_functions
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.steps.off_loop import off_loop


async def estimate(create: StressTestQuestion, context: RunContext) -> StressTestEstimate:
    """Divide the dataset's images as a run would, and say what comes of it; refuse what a run would refuse.

    Raises:
        ImagesOutsideSuite: the images that a run would begin with lie outside what the suite knows.
        UnknownDataset, DatasetEmpty, UnknownModel, ClassMapMismatch, ...: as of `plan`.
    """
    asked, functions = without_functions(create, context)
    context = replace(context, services=with_functions(context.services, functions))
    prepared = await prepare(asked, context)
    if not prepared.config.edits_captions:
        return await _of_operations(create, prepared, context)
    await look_ahead(prepared.config, prepared.division, context.services)
    division, sources, plan = prepared.division, prepared.sources, prepared.division.plan
    redraws = prepared.config.redraw is not None
    items = len(division.screened) * edits_per_source(prepared.config.request)
    items += 0 if plan is None or plan.reason else len(division.fresh) + plan.budget
    earlier = await asyncio.to_thread(context.ledger.runs.page, kind="stress-test", limit=EARLIER_RUNS)
    images = Counter(sources.label_names[code] for code in sources.own_labels().tolist())
    most = most_hypotheses(0 if plan is None else plan.budget, redraws=redraws)
    expected = _expected(division, most if redraws else None)
    pairs = {name: number for name, (number, _) in expected.items()}
    hypotheses = provable_hypotheses(pairs.values(), most)
    beside: dict[str, int] = {}
    if prepared.config.transforms is not None:
        items += len(sources)
        beside = await _beside(prepared)
    return StressTestEstimate(
        images=len(sources),
        screened=len(division.screened),
        fresh=len(division.fresh),
        items=items,
        **minutes_of(items, seconds_per_item(earlier.runs, lambda run: _is_alike(run, create, prepared))),
        hypotheses=hypotheses,
        least_pairs=least_pairs(hypotheses),
        power=POWER,
        classes=[
            ProvableClass(
                object_class=name,
                images=images[name],
                pairs=pairs[name],
                scope=expected[name][1],
                share=provable_share(pairs[name], hypotheses),
            )
            for name in prepared.config.classes
            if images[name]
        ],
        baseline=prepared.config.baseline,
        reason=_reason(create, division, pairs),
        spending=most_spent(prepared, context.suite, beside.get("operations", 0)),
        **beside,
    )


async def _of_operations(
    create: StressTestCreate, prepared: Prepared, context: RunContext
) -> StressTestEstimate:
    """What a run of operations would take: an item each photograph, all of which stand in its tests."""
    config, images = prepared.config, len(prepared.sources)
    beside = await _beside(prepared)
    earlier = await asyncio.to_thread(context.ledger.runs.page, kind="stress-test", limit=EARLIER_RUNS)
    return StressTestEstimate(
        images=images,
        screened=images,
        fresh=0,
        items=images,
        **minutes_of(images, seconds_per_item(earlier.runs, lambda run: _is_alike(run, create, prepared))),
        hypotheses=beside["operation_tests"],
        least_pairs=beside["operation_least"],
        power=POWER,
        classes=[],
        baseline=config.baseline,
        operations=beside["operations"],
        reason=None,
        spending=most_spent(prepared, context.suite, beside["operations"]),
    )


async def _beside(prepared: Prepared) -> dict[str, int]:
    """What is said of operations: the images that they make, their tests, and the least to be lost."""
    config = prepared.config
    plan = config.transforms
    tested = (0 if plan is None else len(plan.operations)) * max(1, len(config.request.classifiers))
    made = await off_loop(prepared.sources, _made, prepared)
    least = least_lost(tested, 0.0 if plan is None else plan.least_loss, len(prepared.sources))
    return {"operations": made, "operation_tests": tested, "operation_least": least}


def _made(prepared: Prepared) -> int:
    """How many images the operations would make of all photographs, by what each of them gives."""
    config, sources = prepared.config, prepared.sources
    plan = config.transforms
    if plan is None:
        return 0
    if (
        not plan.given
        and not plan.excluded
        and not any(operation(name).needs_mask for name in plan.operations)
    ):
        return plan.images * len(sources)
    materials = materials_of(plan, config.request.seed, sources, prepared.second)
    images = ((row, materials.of(row)) for row in sources)
    if plan.segmenter is not None:
        # The mask is still to come: its image stands for it.
        images = ((row, replace(each, mask=each.mask or row.image)) for row, each in images)
    return sum(1 for row, material in images for _ in images_of(config, row.image, material))


def _expected(division: Division, hypotheses: int | None) -> Mapping[str, tuple[int, ConfirmationScope]]:
    """The pairs to expect of each class for a change that applies to all of its images, and what they prove.

    A group counts once.

    Args:
        division: the division of the sources.
        hypotheses: how many changes are tested, if the run can draw images again; else None.
    """
    fresh = Counter(division.fresh.units_by_label())
    # All images of a group are on one side.
    every = fresh + Counter(division.screened.units_by_label())
    found: dict[str, tuple[int, ConfirmationScope]] = {}
    for name, number in every.items():
        pairs = min(MOST_PAIRS, int(fresh[name] * SHARE_KEPT))
        drawn = 0 if hypotheses is None or has_plenty(pairs, hypotheses) else _redrawn(number)
        found[name] = (drawn, "images") if drawn > pairs else (pairs, "class")
    return found


def _redrawn(images: int) -> int:
    """The pairs to expect of several draws of some of a class's images."""
    if images < LEAST_REDRAWN:
        return 0
    return min(MOST_REDRAWN_PAIRS, int(min(images, MOST_REDRAWN) * MOST_DRAWS * SHARE_KEPT))


def _reason(create: StressTestCreate, division: Division, pairs: Mapping[str, int]) -> str | None:
    if division.plan is None:
        return "the request does not confirm"
    if division.plan.reason is not None:
        return division.plan.reason
    needed = least_pairs(1)
    if max(pairs.values(), default=0) < needed:
        return f"no class keeps enough images for {needed} pairs, of which the gate leaves about half"
    return None


def _is_alike(run: Run, create: StressTestCreate, prepared: Prepared) -> bool:
    """Whether a run had the same operations, if any, and no other editor settings than those asked for."""
    plan = prepared.config.transforms
    own = None if plan is None else plan.model_dump(mode="json")
    same = create.preset in (None, run.resolved_config.get("request", {}).get("preset"))
    return same and bool(run.resolved_config.get("transforms") == own)
