"""The effects of the user's own edits: by classifier, tested beyond the controls, and by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.interventions import Intervention
from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import EditTypeSummary, InterventionSummary, StressTestConfig
from faultline_core.statistics.p_values import holm
from faultline_core.types import Estimate
from faultline_gateway.methods.stress_test.interventions import NOT_APPLICABLE
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import Evidence, Shot, hardest
from faultline_gateway.methods.stress_test.summary.hypotheses import Family, Hypotheses
from faultline_gateway.methods.stress_test.summary.sentences import intervention_sentence

INTERVENTIONS = Family("classifier x intervention, Holm at 0.05", 0.05, holm)

_Found = Mapping[str, Sequence[Shot]]
"""Classifier → the kept images of one intervention."""


def summarize_interventions(
    items: Sequence[Item], seen: Sequence[Evidence], config: StressTestConfig, estimator: LanceEstimator
) -> list[InterventionSummary]:
    """Sum up every intervention of the request, in its order."""
    chosen = config.request.interventions
    found = [
        {
            evidence.classifier: [shot for shot in evidence.interventions if shot.item.slot == slot]
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
            [item for item in items if (item.kind, item.slot) == ("intervention", slot)],
            found[slot],
            hypotheses,
            estimator,
        )
        for slot, intervention in enumerate(chosen)
    ]


def _figure(classifier: str, intervention: Intervention) -> str:
    return f"intervention/{classifier}/{intervention.removed}=>{intervention.added}"


def _summarize(
    intervention: Intervention,
    items: Sequence[Item],
    shots_of: _Found,
    hypotheses: Hypotheses,
    estimator: LanceEstimator,
) -> InterventionSummary:
    decided = [item for item in items if item.state in ("done", "filtered")]
    share = estimator.share(
        f"yield/intervention/{intervention.removed}=>{intervention.added}",
        ((estimator.unit(item), item.state == "done") for item in decided),
    )
    models = {
        classifier: _sensitivity(_figure(classifier, intervention), shots, hypotheses, estimator)
        for classifier, shots in shots_of.items()
    }
    return InterventionSummary(
        removed=intervention.removed,
        added=intervention.added,
        planned=len(items),
        kept=sum(item.state == "done" for item in items),
        not_applicable=sum(item.reason == NOT_APPLICABLE for item in items),
        **{"yield": share},
        models=models,
        classes=_by_class(intervention, shots_of, estimator),
        sentences=[
            intervention_sentence(classifier, intervention, model) for classifier, model in models.items()
        ],
        example_item=hardest(shot for shots in shots_of.values() for shot in shots),
    )


def _sensitivity(
    figure: str, shots: Sequence[Shot], hypotheses: Hypotheses, estimator: LanceEstimator
) -> EditTypeSummary:
    seen = estimator.sensitivity(figure, shots)
    return seen.model_copy(update=dict(hypotheses.tested(figure, seen.delta_p)))


def _by_class(
    intervention: Intervention, shots_of: _Found, estimator: LanceEstimator
) -> dict[str, dict[str, Estimate]]:
    """Change of p(true class) by class and classifier; classes without a kept image are left out."""
    labels = sorted({shot.item.label for shots in shots_of.values() for shot in shots})
    return {
        label: {
            classifier: estimator.mean(
                f"{_figure(classifier, intervention)}/class/{label}",
                ((shot.unit, shot.delta_p) for shot in shots if shot.item.label == label),
            )
            for classifier, shots in shots_of.items()
        }
        for label in labels
    }
