"""The summary of a stress test: from recorded items to figures with intervals, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import (
    EditTypeSummary,
    Insight,
    ModelSummary,
    StressTestConfig,
    StressTestSummary,
)
from faultline_core.insights import Group, find_insights
from faultline_core.statistics import holm
from faultline_core.types import Cost
from faultline_gateway.workflows.estimates import Estimator, drop
from faultline_gateway.workflows.evidence import Shot, effects, shots
from faultline_gateway.workflows.verdict import insight_sentence, verdict

MOST_INSIGHTS = 50


def summarize(run: Run, items: Sequence[Item]) -> StressTestSummary:
    """Sum up a run; figures cover what is done so far, and counts say how much that is."""
    config = StressTestConfig.model_validate(run.resolved_config)
    estimator = Estimator(config.request.seed)
    models = _adjusted(
        {spec: _summarize_model(spec, items, config, estimator) for spec in config.request.classifiers}
    )
    insights = _insights(items, config, estimator)
    counts = _counts(items)
    yields = estimator.yields(items)
    return StressTestSummary(
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict=verdict(models, insights, counts),
        models=models,
        edit_types=_over_models(items, config, estimator),
        insights=insights,
        counts=counts,
        **{"yield": yields},
        dropped=dict(Counter(item.reason or "unknown" for item in items if item.state == "filtered")),
        failed_codes=dict(Counter(item.code or "unknown" for item in items if item.state == "failed")),
        cost=sum((item.result.cost for item in items if item.result), Cost()),
        service_seconds=_service_seconds(items),
        wall_s=_wall_seconds(run),
        config=run.resolved_config,
    )


def _summarize_model(
    spec: str, items: Sequence[Item], config: StressTestConfig, estimator: Estimator
) -> ModelSummary:
    edits, controls = shots(items, spec, "edit"), shots(items, spec, "reconstruction")
    covered = {shot.source for shot in edits} & {shot.source for shot in controls}
    paired = [shot for shot in edits if shot.source in covered]
    control = [shot for shot in controls if shot.source in covered]
    beyond = _beyond_control(paired, control)
    return ModelSummary(
        original=estimator.accuracy(
            f"{spec}/original", [(shot.source, shot.before.rank_true) for shot in control]
        ),
        reconstruction=estimator.accuracy(
            f"{spec}/reconstruction", [(shot.source, shot.after.rank_true) for shot in control]
        ),
        counterfactual=estimator.accuracy(
            f"{spec}/counterfactual", [(shot.source, shot.after.rank_true) for shot in paired]
        ),
        drop=estimator.mean(f"{spec}/drop", ((shot.source, drop(shot)) for shot in paired)),
        edit_types=_by_type(spec, edits, config, estimator),
        controls={
            "reconstruction": estimator.sensitivity(f"{spec}/control", controls),
            "placebo": estimator.sensitivity(f"{spec}/placebo", shots(items, spec, "placebo")),
        },
        beyond_control=estimator.mean(f"{spec}/beyond", beyond),
        p=estimator.p_above_zero(f"{spec}/beyond", beyond),
    )


def _beyond_control(paired: Sequence[Shot], control: Sequence[Shot]) -> list[tuple[str, float]]:
    right = {shot.source: shot.after.rank_true == 1 for shot in control}
    return [(shot.source, float(right[shot.source]) - float(shot.after.rank_true == 1)) for shot in paired]


def _adjusted(models: dict[str, ModelSummary]) -> dict[str, ModelSummary]:
    """All models of a run are one family of hypotheses."""
    tested = [(name, model.p) for name, model in models.items() if model.p is not None]
    adjusted = dict(zip([name for name, _ in tested], holm([p for _, p in tested]), strict=True))
    return {
        name: model.model_copy(update={"p_adjusted": adjusted.get(name)}) for name, model in models.items()
    }


def _by_type(
    figure: str, edits: Sequence[Shot], config: StressTestConfig, estimator: Estimator
) -> dict[str, EditTypeSummary]:
    return {
        edit_type: estimator.sensitivity(
            f"{figure}/{edit_type}", [shot for shot in edits if shot.item.edit_type == edit_type]
        )
        for edit_type in config.request.edit_types
    }


def _over_models(
    items: Sequence[Item], config: StressTestConfig, estimator: Estimator
) -> dict[str, EditTypeSummary]:
    """The mean over models; an image counts once however many models saw it."""
    edits = [shot for spec in config.request.classifiers for shot in shots(items, spec, "edit")]
    summaries = _by_type("all models", edits, config, estimator)
    models = len(config.request.classifiers)
    return {
        edit_type: summary.model_copy(update={"n_images": summary.n_images // models})
        for edit_type, summary in summaries.items()
    }


def _insights(items: Sequence[Item], config: StressTestConfig, estimator: Estimator) -> list[Insight]:
    ranked = [
        (group, spec)
        for spec in config.request.classifiers
        for group in find_insights(effects(shots(items, spec, "edit")))
    ]
    ranked.sort(key=lambda pair: pair[0].mean)
    return [_insight(group, spec, estimator) for group, spec in ranked[:MOST_INSIGHTS]]


def _insight(group: Group, spec: str, estimator: Estimator) -> Insight:
    pattern = group.pattern
    figure = "/".join((spec, pattern.object_class, pattern.edit_type, pattern.removed, pattern.added))
    delta_p = estimator.mean(
        f"insight/{figure}", ((effect.source, effect.delta_p) for effect in group.effects)
    )
    return Insight(
        classifier=spec,
        object_class=pattern.object_class,
        edit_type=pattern.edit_type,
        removed=pattern.removed,
        added=pattern.added,
        delta_p=delta_p,
        example_item=group.worst.item,
        sentence=insight_sentence(spec, pattern, delta_p),
    )


def _counts(items: Sequence[Item]) -> dict[str, int]:
    states = Counter(item.state for item in items)
    return {
        "planned": len(items),
        "done": states["done"],
        "filtered": states["filtered"],
        "failed": states["failed"],
        "cancelled": states["cancelled"],
        "pending": states["pending"] + states["leased"],
    }


def _service_seconds(items: Sequence[Item]) -> dict[str, float]:
    seconds: Counter[str] = Counter()
    for item in items:
        seconds.update(item.result.service_seconds if item.result else {})
    return dict(sorted(seconds.items()))


def _wall_seconds(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
