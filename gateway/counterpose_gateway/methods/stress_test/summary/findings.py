"""The findings of a stress test: what the screen suspects, and what tests on fresh images say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterpose_core.contract.confirmation import ConfirmationSummary, Wording
from counterpose_core.contract.findings import Confirmed, Finding, FindingState
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import MARGIN, ConfirmationTest, confirm, is_futile, mean_loss
from counterpose_core.stress_test.decisions import settle_zero, zero_ruled_out
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL, WordingKey, rank_candidates, wording_key
from counterpose_core.types import FINAL_RUN_STATES, Estimate
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of
from counterpose_gateway.methods.stress_test.observations.conjunction_pairs import (
    ChosenConjunction,
    conjunctions_of,
)
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import (
    LOOK_STAGE,
    ChosenChange,
    Suspicion,
    chosen_changes,
    fresh_placebos,
    suspicions,
)
from counterpose_gateway.methods.stress_test.observations.observations import Observation, Place
from counterpose_gateway.methods.stress_test.observations.observed_items import ObservedItems, ScreenedGroup
from counterpose_gateway.methods.stress_test.summary.conjunction_drafts import (
    conjunction_draft,
    figure_of_conjunction,
)
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips
from counterpose_gateway.methods.stress_test.summary.screen import screened_groups
from counterpose_gateway.methods.stress_test.summary.suspicion import (
    figure_of,
    is_suspect,
    seen_in_screen,
    untested,
)
from counterpose_gateway.methods.stress_test.summary.worded import WordedPairs

_SUREST_FIRST: Mapping[FindingState, int] = {
    "breaks": 0,
    "suspected": 1,
    "cannot-tell": 2,
    "holds": 3,
    "test-unfit": 4,
}


def find(
    run: Run, items: ItemColumns | Iterable[Item], config: StressTestConfig, estimator: LanceEstimator
) -> tuple[list[Finding], ConfirmationSummary | None]:
    """Return the findings, the surest first, and what the confirmation did.

    A test is stated once the run has ended: before that, what it tests is at most a suspicion, so that no
    one stops a run at the moment at which it pleases.
    """
    columns = items if isinstance(items, ItemColumns) else columns_of(items, config.groups)
    seen = list(ObservedItems(columns, np.flatnonzero(columns.stage > 1)))
    groups = screened_groups(columns, config.request.classifiers)
    changes = chosen_changes(seen)
    conjunctions = conjunctions_of(seen)
    has_ended = run.state in FINAL_RUN_STATES
    tested = suspicions(changes) if has_ended else []
    drafts = _tested(tested, conjunctions if has_ended else [], groups, seen, estimator)
    candidates = (group.candidate_above(LEAST_LOSS) for group in groups.values())
    for candidate in rank_candidates(filter(None, candidates)):
        group = groups[candidate.classifier, candidate.change]
        told = any(
            known[0] == candidate.classifier and known[1].overlaps(candidate.change) for known, _ in tested
        )
        if not told and is_suspect(group, estimator):
            drafts.append(untested(group, "suspected"))
    drafts.sort(key=lambda draft: (_SUREST_FIRST[draft.state], -draft.loss, draft.classifier, draft.words))
    findings = [draft.finding(number) for number, draft in enumerate(drafts, start=1)]
    hypotheses = len(suspicions(changes)) + sum(len(each.classifiers) for each in conjunctions)
    return findings, summarize_confirmation(run, config, len(seen), hypotheses)


def under_test(run: Run, columns: ItemColumns, config: StressTestConfig) -> list[Finding]:
    """Return the changes that a run tests while it goes on, as its screen saw them; none once it has ended.

    They are suspicions, if weaker ones than a run that ends without a test would tell.
    """
    if run.state in FINAL_RUN_STATES or run.stage < LOOK_STAGE:
        return []
    chosen = suspicions(chosen_changes(list(ObservedItems(columns, np.flatnonzero(columns.stage > 1)))))
    groups = screened_groups(columns, config.request.classifiers)
    drafts = [untested(groups[suspicion], "suspected") for suspicion, _ in chosen if suspicion in groups]
    drafts.sort(key=lambda draft: (-draft.loss, draft.classifier, draft.words))
    return [draft.finding(number) for number, draft in enumerate(drafts, start=1)]


def summarize_confirmation(
    run: Run, config: StressTestConfig, later: int, hypotheses: int
) -> ConfirmationSummary | None:
    """Say what the confirmation did; ``later`` is the number of items of stages after the screen."""
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
        items=later,
        level=LEVEL,
        least_loss=LEAST_LOSS,
        margin=MARGIN,
    )


def _tested(
    hypotheses: Sequence[tuple[Suspicion, ChosenChange]],
    conjunctions: Sequence[ChosenConjunction],
    groups: Mapping[Suspicion, ScreenedGroup],
    seen: Sequence[Observation],
    estimator: LanceEstimator,
) -> list[Draft]:
    """Test every hypothesis on its fresh pairs, corrected over all of them."""
    placebos = fresh_placebos(seen)
    all_placebos = [each for each in seen if each.kind == "placebo" and each.stage > 1]
    meetings = [(name, each) for each in conjunctions for name in each.classifiers]
    columns = [each.columns(classifier, placebos) for (classifier, _), each in hypotheses]
    columns += [each.columns(name) for name, each in meetings]
    stopped = [
        is_futile(each.of_stage(LOOK_STAGE).columns(classifier, placebos))
        for (classifier, _), each in hypotheses
    ]
    stopped += [each.is_given_up(name) for name, each in meetings]
    figures = [figure_of(suspicion) for suspicion, _ in hypotheses]
    figures += [figure_of_conjunction(name, each.conjunction) for name, each in meetings]
    tests = confirm(columns, stopped, [estimator.generator(f"{figure}/p") for figure in figures])
    losses = [
        mean_loss(each, estimator.generator(figure)) for each, figure in zip(columns, figures, strict=True)
    ]
    context = _Context(placebos, all_placebos, estimator, len(tests))
    results = list(zip(tests, losses, strict=True))
    of_changes = without_twins(
        [
            context.draft(suspicion, each, groups.get(suspicion), *result)
            for (suspicion, each), result in zip(hypotheses, results[: len(hypotheses)], strict=True)
        ]
    )
    together = zip(meetings, results[len(hypotheses) :], strict=True)
    return of_changes + [
        conjunction_draft(name, each, *result, family=len(tests)) for (name, each), result in together
    ]


def without_twins(drafts: Sequence[Draft]) -> list[Draft]:
    """Merge a finding that was narrowed to one wording into a proven one of a change that has this wording.

    “The ball becomes a person” is then part of “a person is there”, beside whose wordings it stands.
    """
    kept = [draft for draft in drafts if not _is_narrowed(draft)]
    # As they were drafted: a wording that was merged into one is no wording of its own test.
    twins = list(kept)
    for draft in filter(_is_narrowed, drafts):
        place = next((place for place, other in enumerate(twins) if _contains(other, draft)), None)
        if place is None:
            kept.append(draft)
            continue
        there = {_key(each) for each in kept[place].wordings}
        own = [
            each.model_copy(update={"named": False})
            for each in draft.wordings
            if each.named and _key(each) not in there
        ]
        kept[place] = replace(kept[place], wordings=[*kept[place].wordings, *own])
    return kept


def _is_narrowed(draft: Draft) -> bool:
    return draft.tested is not None and all(draft.words)


def _contains(other: Draft, narrowed: Draft) -> bool:
    """Whether a finding is proven of a change that these words show, without parting from them."""
    same = (other.state, other.classifier, other.object_class, other.edit_type) == (
        "breaks", narrowed.classifier, narrowed.object_class, narrowed.edit_type,
    )  # fmt: skip
    mine, theirs = wording_key(*narrowed.words), wording_key(*other.words)
    parted = {_key(each) for each in other.wordings if not each.named}
    fits = all(side in (frozenset(), own) for side, own in zip(theirs, mine, strict=True))
    return same and fits and mine not in parted


def _key(wording: Wording) -> WordingKey:
    return wording_key(wording.removed, wording.added)


def state_of(test: ConfirmationTest, loss: Estimate, *, suspect: bool) -> FindingState:
    """Return how sure a tested change is; ``suspect``: whether the screen alone speaks strongly."""
    if test.confirmed:
        return "breaks"
    if not test.n:
        # Nothing of it was kept, so nothing was tested: it stands where the screen left it.
        return "suspected" if suspect else "cannot-tell"
    return "holds" if loss.high is not None and loss.high < MARGIN else "cannot-tell"


@dataclass(frozen=True)
class _Context:
    """What the drafts of all tests share; ``family`` is the number of tests."""

    placebos: Mapping[Place, Observation]
    all_placebos: Sequence[Observation]
    estimator: LanceEstimator
    family: int

    def draft(
        self,
        suspicion: Suspicion,
        each: ChosenChange,
        group: ScreenedGroup | None,
        test: ConfirmationTest,
        loss: Estimate,
    ) -> Draft:
        """The finding of a test: of all wordings of its change, or of those that hurt where they part."""
        (classifier, change), figure = suspicion, figure_of(suspicion)
        found = each.pairs(classifier, self.placebos)
        suspect = group is not None and is_suspect(group, self.estimator)
        state = state_of(test, loss, suspect=suspect)
        worded = WordedPairs(classifier, found, each.scope == "images", figure, self.estimator)
        if state == "breaks" and worded.is_narrower:
            each = each.of_wordings(worded.named)
            found = each.pairs(classifier, self.placebos)
            loss = mean_loss(
                each.columns(classifier, self.placebos), self.estimator.generator(f"{figure}/named")
            )
        ruled_out = zero_ruled_out(shown=test.confirmed, p_adjusted=test.p_adjusted)
        confirmed = Confirmed(
            scope=each.scope,
            n_sources=len({pair.edit.unit for pair in found}),
            n_pairs=len(found),
            loss=settle_zero(loss, ruled_out=ruled_out),
            planned=len(each.edits),
            dropped=each.dropped(self.all_placebos),
            stopped=test.stopped,
            p=test.p,
            p_adjusted=test.p_adjusted,
            family_size=self.family,
            flipped=sum(flips(pair.placebo, pair.edit, classifier) for pair in found),
        )
        if state == "suspected" and group is not None:
            # No pair of the test was kept, so its images are those that the screen saw.
            return replace(untested(group, state), confirmed=confirmed)
        words = (change.removed, change.added) if group is None else (group.removed, group.added)
        screened = seen_in_screen(group)
        pairs = [Pair(pair.placebo, pair.edit, pair.loss) for pair in found]
        object_class, edit_type = change.object_class, change.edit_type
        draft = Draft(state, classifier, object_class, edit_type, words, screened, confirmed, pairs)
        return worded.of(draft) if found else draft
