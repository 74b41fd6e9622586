"""The summary of a survey."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose_core.contract.runs import Run
from counterpose_gateway.steps.estimator import Estimator
from fakes.confidence_survey.contract import SurveyConfig, SurveyItem, SurveySummary


def summarize(run: Run, items: Iterable[SurveyItem]) -> SurveySummary:
    """Take the mean of p(true class) over sources."""
    config, listed = SurveyConfig.model_validate(run.resolved_config), list(items)
    estimator = Estimator(config.request.seed)
    return SurveySummary(
        run_id=run.id,
        confidences={
            name: estimator.mean(
                f"confidence/{name}",
                [
                    (item.item_group, item.result.predictions[name].p_true)
                    for item in listed
                    if item.result is not None
                ],
                bounds=(0.0, 1.0),
            )
            for name in config.request.classifiers
        },
    )
