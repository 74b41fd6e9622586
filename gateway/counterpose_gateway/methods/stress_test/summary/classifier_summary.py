"""The rows of the drops table: each classifier's figures, with all cells tested as one family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.contract.stress_test_figures import HitRates
from counterpose_core.contract.stress_tests import EditTypeSummary, ModelSummary, StressTestConfig
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.coded import Flags, Floats
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence, Shots
from counterpose_gateway.methods.stress_test.summary.hypotheses import CLASSIFIERS, EDIT_TYPES, Hypotheses
from counterpose_gateway.summaries.columns import hit


def summarize_models(
    seen: Sequence[Evidence], config: StressTestConfig, estimator: LanceEstimator
) -> dict[str, ModelSummary]:
    """Sum up every classifier; cells are corrected over classifiers x edit types."""
    both_ways = _losses_and_gains(seen, estimator)
    overall = Hypotheses(
        CLASSIFIERS,
        {evidence.classifier: evidence.contrast(evidence.paired(evidence.edits)) for evidence in seen},
        estimator,
    )
    cells = Hypotheses(
        EDIT_TYPES,
        {
            f"{evidence.classifier}/{edit_type}": evidence.contrast(evidence.of_type(edit_type))
            for evidence in seen
            for edit_type in config.request.tested_types
        },
        estimator,
    )
    models = {evidence.classifier: _summarize(evidence, estimator) for evidence in seen}
    for evidence in seen:
        by_type = by_edit_type(evidence.classifier, [evidence.edits], config, estimator)
        models[evidence.classifier] = models[evidence.classifier].model_copy(
            update={
                "overall": _with(
                    estimator.sensitivity(f"{evidence.classifier}/overall", evidence.paired(evidence.edits)),
                    overall,
                    evidence.classifier,
                ),
                "edit_types": {
                    edit_type: _with(summary, cells, f"{evidence.classifier}/{edit_type}")
                    for edit_type, summary in by_type.items()
                },
                **_beyond_placebo(evidence.classifier, both_ways),
            }
        )
    return models


def by_edit_type(
    figure: str, edits: Sequence[Shots], config: StressTestConfig, estimator: LanceEstimator
) -> dict[str, EditTypeSummary]:
    """Sensitivity to each requested edit type."""
    return {
        edit_type: estimator.sensitivity(
            f"{figure}/{edit_type}", [part.of("edit_type", edit_type) for part in edits]
        )
        for edit_type in config.request.tested_types
    }


def _summarize(seen: Evidence, estimator: LanceEstimator) -> ModelSummary:
    spec, edits = seen.classifier, seen.paired(seen.edits)
    control, placebos = seen.paired(seen.reconstructions), seen.paired(seen.placebos)
    return ModelSummary(
        original=estimator.hit_rates(f"{spec}/original", control, control.hits_before),
        reconstruction=estimator.hit_rates(f"{spec}/reconstruction", control, control.hits_after),
        counterfactual=estimator.hit_rates(f"{spec}/counterfactual", edits, edits.hits_after),
        placebo=estimator.hit_rates(f"{spec}/placebo-row", placebos, placebos.hits_after),
        drop=estimator.mean_of(f"{spec}/drop", edits.unit, edits.drop()),
        second_drop=estimator.mean_of(f"{spec}/drop5", edits.unit, edits.drop(1)),
        drop_paper=estimator.drop_paper(f"{spec}/paper", seen.everything, seen.edits, 0),
        second_drop_paper=estimator.drop_paper(f"{spec}/paper5", seen.everything, seen.edits, 1),
        edit_types={},
        controls=_controls(seen, estimator),
        **_baseline(seen, estimator),
        changed_by_reconstruction=_changed(seen, estimator),
        changed_beyond_reconstruction=estimator.mean_of(
            f"{spec}/changed-beyond",
            edits.unit,
            edits.changes_answer - _alone(seen.reconstructions, edits, seen.reconstructions.changes_answer),
        ),
        beyond_control=estimator.mean_of(
            f"{spec}/beyond",
            edits.unit,
            _alone(control, edits, hit(control.hits_after)) - hit(edits.hits_after),
        ),
    )


def _alone(controls: Shots, edits: Shots, values: Flags) -> Floats:
    """For each edit the value, as 0 or 1, of its source's control."""
    own = np.zeros(len(edits.columns.names["source"].names))
    own[controls.source] = values
    return own[edits.source]


def _controls(seen: Evidence, estimator: LanceEstimator) -> dict[str, EditTypeSummary]:
    spec = seen.classifier
    controls = {
        "reconstruction": estimator.sensitivity(f"{spec}/control", seen.reconstructions),
        "placebo": estimator.sensitivity(f"{spec}/placebo", seen.placebos),
    }
    if len(seen.lance_r):
        controls["lance-r"] = estimator.sensitivity(f"{spec}/lance-r", seen.lance_r)
    return controls


def _baseline(seen: Evidence, estimator: LanceEstimator) -> dict[str, HitRates | Estimate]:
    """The row of LANCE-R, if the run has one."""
    spec, kept = seen.classifier, seen.paired(seen.lance_r)
    if not len(seen.lance_r):
        return {}
    return {
        "lance_r": estimator.hit_rates(f"{spec}/lance-r-row", kept, kept.hits_after),
        "drop_lance_r": estimator.mean_of(f"{spec}/lance-r-drop", kept.unit, kept.drop()),
    }


def _changed(seen: Evidence, estimator: LanceEstimator) -> Estimate:
    changed = seen.reconstructions.last_of_source
    if len(np.unique(changed.unit)) == len(changed):
        return proportion(total(changed.changes_answer), len(changed))
    figure = f"{seen.classifier}/changed"
    return estimator.mean_of(figure, changed.unit, changed.changes_answer.astype(np.float64), (0.0, 1.0))


def _with(summary: EditTypeSummary, tests: Hypotheses, figure: str) -> EditTypeSummary:
    return summary.model_copy(update=dict(tests.tested(figure, summary.delta_p)))


def _losses_and_gains(seen: Sequence[Evidence], estimator: LanceEstimator) -> Hypotheses:
    """Test of every classifier whether edits cost right answers beyond the placebos, or bring some."""
    contrasts = {evidence.classifier: evidence.mistakes(evidence.edits) for evidence in seen}
    both = {_loss(name): found for name, found in contrasts.items()} | {
        _gain(name): None if found is None else found.reversed for name, found in contrasts.items()
    }
    return Hypotheses(CLASSIFIERS, both, estimator)


def _loss(classifier: str) -> str:
    return f"{classifier}/beyond-placebo"


def _gain(classifier: str) -> str:
    return f"{classifier}/gain-beyond-placebo"


def _beyond_placebo(classifier: str, tests: Hypotheses) -> dict[str, object]:
    """The loss of right answers beyond the placebos with its test, and the test of the opposite."""
    loss = tests.tested(_loss(classifier))
    return {
        "beyond_placebo": loss.beyond_controls,
        "p": loss.p,
        "p_adjusted": loss.p_adjusted,
        "p_gain": tests.p(_gain(classifier)),
        "p_gain_adjusted": tests.adjusted.get(_gain(classifier)),
        "sources_needed": loss.sources_needed,
        "family": loss.family,
        "family_size": loss.family_size,
    }
