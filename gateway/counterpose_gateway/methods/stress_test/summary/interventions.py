"""The effects of the user's own edits: by classifier, tested beyond the controls, and by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.stress_test_figures import LEAST_SHOWN, SHOWN_LEVEL
from counterpose_core.contract.stress_tests import EditTypeSummary, InterventionSummary, StressTestConfig
from counterpose_core.statistics.coded import Flags
from counterpose_core.statistics.p_values import holm
from counterpose_core.tasks import figures_of
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.screen.interventions import NOT_APPLICABLE
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence, Shots, hardest
from counterpose_gateway.methods.stress_test.summary.hypotheses import Family, Hypotheses
from counterpose_gateway.methods.stress_test.summary.sentences import intervention_sentence

INTERVENTIONS = Family("classifier x intervention, Holm at 0.05", SHOWN_LEVEL, holm, LEAST_SHOWN)

_Found = Mapping[str, Shots]
"""Classifier → the kept images of one intervention."""


def summarize_interventions(
    columns: ItemColumns, seen: Sequence[Evidence], config: StressTestConfig, estimator: LanceEstimator
) -> list[InterventionSummary]:
    """Sum up every intervention of the request, in its order."""
    chosen = config.request.interventions
    found = [
        {
            evidence.classifier: evidence.interventions.where(columns.slot[evidence.interventions.at] == slot)
            for evidence in seen
        }
        for slot in range(len(chosen))
    ]
    hypotheses = Hypotheses(
        INTERVENTIONS,
        {
            _figure(evidence.classifier, intervention): evidence.contrast(shots[evidence.classifier])
            for intervention, shots in zip(chosen, found, strict=True)
            for evidence in seen
        },
        estimator,
    )
    return [
        _summarize(
            intervention,
            columns,
            columns.screened & columns.of("kind", "intervention") & (columns.slot == slot),
            found[slot],
            hypotheses,
            estimator,
            figures_of(config.request.task, config.labelled).score,
        )
        for slot, intervention in enumerate(chosen)
    ]


def _figure(classifier: str, intervention: Intervention) -> str:
    return f"intervention/{classifier}/{intervention.removed}=>{intervention.added}"


def _summarize(
    intervention: Intervention,
    columns: ItemColumns,
    planned: Flags,
    shots_of: _Found,
    hypotheses: Hypotheses,
    estimator: LanceEstimator,
    score: str,
) -> InterventionSummary:
    decided = planned & columns.decided
    share = estimator.share_of(
        f"yield/intervention/{intervention.removed}=>{intervention.added}",
        columns.unit[decided],
        columns.done[decided],
    )
    models = {
        classifier: _sensitivity(_figure(classifier, intervention), shots, hypotheses, estimator)
        for classifier, shots in shots_of.items()
    }
    return InterventionSummary(
        removed=intervention.removed,
        added=intervention.added,
        planned=total(planned),
        kept=total(planned & columns.done),
        not_applicable=total(planned & columns.of("reason", NOT_APPLICABLE)),
        **{"yield": share},
        models=models,
        classes=_by_class(intervention, shots_of, estimator),
        sentences=[
            intervention_sentence(classifier, intervention, model, score)
            for classifier, model in models.items()
        ],
        example_item=hardest(shots_of.values()),
    )


def _sensitivity(
    figure: str, shots: Shots, hypotheses: Hypotheses, estimator: LanceEstimator
) -> EditTypeSummary:
    seen = estimator.sensitivity(figure, shots)
    return seen.model_copy(update=dict(hypotheses.tested(figure, seen.delta_p)))


def _by_class(
    intervention: Intervention, shots_of: _Found, estimator: LanceEstimator
) -> dict[str, dict[str, Estimate]]:
    """Change of p(true class) by class and classifier; classes without a kept image are left out."""
    codes = {code for shots in shots_of.values() for code in shots.columns.label[shots.at].tolist()}
    names = [shots.columns.names["label"].names for shots in shots_of.values()][:1]
    labels = sorted(each[code] for each in names for code in codes)
    return {
        label: {
            classifier: estimator.mean_of(
                f"{_figure(classifier, intervention)}/class/{label}", of_class.unit, of_class.delta_p
            )
            for classifier, shots in shots_of.items()
            for of_class in [shots.of("label", label)]
        }
        for label in labels
    }
