"""What the user's own edits did: by classifier with a test beyond the controls, and by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.interventions import Intervention
from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import EditTypeSummary, InterventionSummary, StressTestConfig
from faultline_core.p_values import holm
from faultline_core.types import Estimate
from faultline_gateway.workflows.chosen_edits import NOT_APPLICABLE
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.evidence import Evidence, Shot, hardest
from faultline_gateway.workflows.hypotheses import Family, Hypotheses
from faultline_gateway.workflows.sentences import intervention_sentence

INTERVENTIONS = Family("classifier x intervention, Holm at 0.05", 0.05, holm)

_Found = Mapping[str, Sequence[Shot]]
"""Classifier → the kept pictures of one intervention."""


def summarize_interventions(
    items: Sequence[Item], seen: Sequence[Evidence], config: StressTestConfig, estimator: Estimator
) -> list[InterventionSummary]:
    """Sum up every intervention of the request, in its order."""
    chosen = config.request.interventions
    found = [
        {each.classifier: [shot for shot in each.interventions if shot.item.slot == slot] for each in seen}
        for slot in range(len(chosen))
    ]
    hypotheses = Hypotheses(
        INTERVENTIONS,
        {
            _figure(each.classifier, one): each.contrast(shots[each.classifier])
            for one, shots in zip(chosen, found, strict=True)
            for each in seen
        },
        estimator,
    )
    return [
        _summarize(
            one,
            [item for item in items if (item.kind, item.slot) == ("intervention", slot)],
            found[slot],
            hypotheses,
            estimator,
        )
        for slot, one in enumerate(chosen)
    ]


def _figure(classifier: str, one: Intervention) -> str:
    return f"intervention/{classifier}/{one.removed}=>{one.added}"


def _summarize(
    one: Intervention,
    items: Sequence[Item],
    found: _Found,
    hypotheses: Hypotheses,
    estimator: Estimator,
) -> InterventionSummary:
    decided = [item for item in items if item.state in ("done", "filtered")]
    share = estimator.share(
        f"yield/intervention/{one.removed}=>{one.added}",
        ((item.source_id, item.state == "done") for item in decided),
    )
    models = {
        classifier: _sensitivity(_figure(classifier, one), shots, hypotheses, estimator)
        for classifier, shots in found.items()
    }
    return InterventionSummary(
        removed=one.removed,
        added=one.added,
        planned=len(items),
        kept=sum(item.state == "done" for item in items),
        not_applicable=sum(item.reason == NOT_APPLICABLE for item in items),
        **{"yield": share},
        models=models,
        classes=_by_class(one, found, estimator),
        sentences=[intervention_sentence(classifier, one, model) for classifier, model in models.items()],
        example_item=hardest(shot for shots in found.values() for shot in shots),
    )


def _sensitivity(
    figure: str, shots: Sequence[Shot], hypotheses: Hypotheses, estimator: Estimator
) -> EditTypeSummary:
    return estimator.sensitivity(figure, shots).model_copy(update=dict(hypotheses.tested(figure)))


def _by_class(one: Intervention, found: _Found, estimator: Estimator) -> dict[str, dict[str, Estimate]]:
    """Change of p(true class) by class and classifier; classes without a kept picture are left out."""
    labels = sorted({shot.item.label for shots in found.values() for shot in shots})
    return {
        label: {
            classifier: estimator.mean(
                f"{_figure(classifier, one)}/class/{label}",
                ((shot.source, shot.delta_p) for shot in shots if shot.item.label == label),
            )
            for classifier, shots in found.items()
        }
        for label in labels
    }
