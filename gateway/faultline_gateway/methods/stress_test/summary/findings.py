"""The findings of a stress test: what the screen suspects, and what tests on fresh images say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from faultline_core.contract.confirmation import ConfirmationSummary
from faultline_core.contract.findings import (
    Confirmed,
    Finding,
    FindingState,
    Screened,
)
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.statistics.bootstrap import mean_by_source
from faultline_core.stress_test.confirmation import (
    MARGIN,
    ConfirmationTest,
    confirm,
    is_futile,
)
from faultline_core.stress_test.insights import LEAST_SOURCES
from faultline_core.stress_test.screening import LEAST_LOSS, LEVEL, rank_candidates
from faultline_core.types import FINAL_RUN_STATES, Estimate
from faultline_gateway.methods.stress_test.fresh_pairs import (
    ChosenChange,
    FreshPair,
    chosen_changes,
    fresh_placebos,
    losses,
    suspicions,
)
from faultline_gateway.methods.stress_test.observations import Observation, observe
from faultline_gateway.methods.stress_test.screen import ScreenedGroup, Suspicion, screened_groups
from faultline_gateway.methods.stress_test.stages import LOOK_STAGE
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips

_SUREST_FIRST: Mapping[FindingState, int] = {
    "breaks": 0,
    "suspected": 1,
    "cannot-tell": 2,
    "holds": 3,
    "test-unfit": 4,
}


def find(
    run: Run, items: Iterable[Item], config: StressTestConfig, estimator: LanceEstimator
) -> tuple[list[Finding], ConfirmationSummary | None]:
    """Return the findings, the surest first, and what the confirmation did.

    A test is stated once the run has ended: before that, what it tests is at most a suspicion, so that no
    one stops a run at the moment at which it pleases.
    """
    seen = observe(items, config)
    groups = screened_groups(seen, config.request.classifiers)
    changes = chosen_changes(seen)
    tested = suspicions(changes) if run.state in FINAL_RUN_STATES else []
    drafts = _tested(tested, groups, seen, estimator)
    for candidate in rank_candidates(group.candidate for group in groups.values()):
        draft = _suspected(groups[candidate.classifier, candidate.change], estimator)
        told = any(
            known[0] == candidate.classifier and known[1].overlaps(candidate.change) for known, _ in tested
        )
        if draft is not None and not told:
            drafts.append(draft)
    drafts.sort(key=lambda draft: (_SUREST_FIRST[draft.state], -draft.loss, draft.classifier, draft.words))
    findings = [draft.finding(number) for number, draft in enumerate(drafts, start=1)]
    return findings, _confirmation(run, config, seen, len(suspicions(changes)))


def _confirmation(
    run: Run, config: StressTestConfig, seen: Sequence[Observation], hypotheses: int
) -> ConfirmationSummary | None:
    plan = config.confirmation
    if plan is None:
        return None
    reason = plan.reason
    if reason is None and not hypotheses and run.state in FINAL_RUN_STATES:
        reason = (
            f"no change cost a classifier {LEAST_LOSS:g} or more in the screen and applies to enough of the "
            "images that were kept"
        )
    return ConfirmationSummary(
        **plan.model_dump(exclude={"reason"}),
        reason=reason,
        hypotheses=hypotheses,
        items=sum(each.stage > 1 for each in seen),
        level=LEVEL,
        least_loss=LEAST_LOSS,
        margin=MARGIN,
    )


def _tested(
    hypotheses: Sequence[tuple[Suspicion, ChosenChange]],
    groups: Mapping[Suspicion, ScreenedGroup],
    seen: Sequence[Observation],
    estimator: LanceEstimator,
) -> list[Draft]:
    """Test every hypothesis on its fresh pairs, corrected over all of them."""
    placebos = fresh_placebos(seen)
    all_placebos = [each for each in seen if each.kind == "placebo" and each.stage > 1]
    pairs = [each.pairs(classifier, placebos) for (classifier, _), each in hypotheses]
    stopped = [
        is_futile(losses(each.of_stage(LOOK_STAGE).pairs(classifier, placebos)))
        for (classifier, _), each in hypotheses
    ]
    figures = [_figure(suspicion) for suspicion, _ in hypotheses]
    tests = confirm(
        [losses(found) for found in pairs],
        stopped,
        [estimator.generator(f"{figure}/p") for figure in figures],
    )
    drafts: list[Draft] = []
    for (suspicion, each), found, test, figure in zip(hypotheses, pairs, tests, figures, strict=True):
        loss = estimator.mean(figure, ((pair.edit.unit, pair.loss) for pair in found))
        group = groups.get(suspicion)
        confirmed = Confirmed(
            loss=loss,
            planned=len(each.edits),
            dropped=each.dropped(all_placebos),
            stopped=test.stopped,
            p=test.p,
            p_adjusted=test.p_adjusted,
            family_size=len(tests),
            flipped=sum(flips(pair.placebo, pair.edit, suspicion[0]) for pair in found),
        )
        suspect = group is not None and _is_suspect(group, estimator)
        drafts.append(_draft(suspicion, group, state_of(test, loss, suspect=suspect), confirmed, found))
    return drafts


def state_of(test: ConfirmationTest, loss: Estimate, *, suspect: bool) -> FindingState:
    """Return how sure a tested change is; ``suspect``: whether the screen alone speaks strongly."""
    if test.confirmed:
        return "breaks"
    if not test.n:
        # Nothing of it was kept, so nothing was tested: it stands where the screen left it.
        return "suspected" if suspect else "cannot-tell"
    return "holds" if loss.high is not None and loss.high < MARGIN else "cannot-tell"


def _draft(
    suspicion: Suspicion,
    group: ScreenedGroup | None,
    state: FindingState,
    confirmed: Confirmed,
    found: Sequence[FreshPair],
) -> Draft:
    classifier, change = suspicion
    words = (change.removed, change.added) if group is None else (group.removed, group.added)
    screened = _screened(group)
    pairs = [Pair(pair.placebo, pair.edit, pair.loss) for pair in found]
    object_class, edit_type = change.object_class, change.edit_type
    return Draft(state, classifier, object_class, edit_type, words, screened, confirmed, pairs)


def _figure(suspicion: Suspicion) -> str:
    classifier, change = suspicion
    words = [classifier, change.object_class, change.edit_type, change.removed, change.added]
    return "finding/" + "/".join(words)


def _screened(group: ScreenedGroup | None) -> Screened:
    if group is None:
        return Screened(loss=0.0, n_sources=0, n_images=0, flipped=0)
    candidate, pairs = group.candidate, group.pairs
    turned = {edit.unit for edit, control in pairs if flips(control, edit, group.classifier)}
    return Screened(loss=candidate.loss, n_sources=candidate.n, n_images=len(pairs), flipped=len(turned))


def _is_suspect(group: ScreenedGroup, estimator: LanceEstimator) -> bool:
    """Whether the screen alone speaks strongly: three sources, and both intervals clear of what controls do.

    Both the fall from the original and the loss beyond the controls must exclude what is no harm: the first
    0, the second the least loss of a finding.
    """
    candidate = group.candidate
    if candidate.n < LEAST_SOURCES:
        return False
    figure, name = _figure((group.classifier, group.change)), group.classifier
    beyond = estimator.mean(
        f"{figure}/screened", ((edit.unit, group.loss(edit, control)) for edit, control in group.pairs)
    )
    fall = estimator.mean(
        f"{figure}/fall",
        ((edit.unit, edit.before[name].p_true - edit.after[name].p_true) for edit in group.edits),
    )
    return (beyond.low or 0.0) > LEAST_LOSS and (fall.low or 0.0) > 0.0


def _suspected(group: ScreenedGroup, estimator: LanceEstimator) -> Draft | None:
    """The suspicion that a group of the screen gives rise to, if it does."""
    if not _is_suspect(group, estimator):
        return None
    change, words = group.change, (group.removed, group.added)
    pairs = [Pair(control, edit, group.loss(edit, control)) for edit, control in _one_per_unit(group)]
    screened = _screened(group)
    return Draft(
        "suspected", group.classifier, change.object_class, change.edit_type, words, screened, None, pairs
    )


def _one_per_unit(group: ScreenedGroup) -> list[tuple[Observation, Observation]]:
    """Each unit's edit that is nearest to its mean loss: ``of`` counts images of units, not edits."""
    means = mean_by_source((edit.unit, group.loss(edit, control)) for edit, control in group.pairs)

    def distance(pair: tuple[Observation, Observation]) -> tuple[float, str]:
        return abs(group.loss(*pair) - means[pair[0].unit]), pair[0].id

    nearest: dict[str, tuple[Observation, Observation]] = {}
    for pair in sorted(group.pairs, key=distance):
        nearest.setdefault(pair[0].unit, pair)
    return list(nearest.values())
