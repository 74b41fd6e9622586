"""The bugs of a hunt: its winners on held-out images, with their states and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.bug_hunt.comparison import LEVEL
from counterpose_core.bug_hunt.generator_gap import least_rate
from counterpose_core.bug_hunt.sampling import Sampling
from counterpose_core.contract.bug_hunt_summary import (
    Bug,
    BugImage,
    Confusion,
    EditedCaptions,
    FailureRate,
    HypothesisResult,
    LabelBaseline,
    RefinedForm,
)
from counterpose_core.contract.bug_hunts import BugHuntConfig
from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.runs import Run
from counterpose_core.statistics.p_values import holm
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.bug_hunt.held_out import HeldOut, held_out_rule
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.mentions import mentions_of
from counterpose_gateway.methods.bug_hunt.photographs import photograph_rates
from counterpose_gateway.methods.bug_hunt.ranking import Refined, refined
from counterpose_gateway.steps.failed_samples import Counted
from counterpose_gateway.steps.failure_rates import failure_rate, ratio_of, taken_for

SHOWN_IMAGES = 6
SHOWN_ANSWERS = 15
"""Mistakes that the paper's figure 2 shows."""
_ORDER: tuple[FindingState, ...] = ("breaks", "suspected", "cannot-tell", "test-unfit", "holds")


@dataclass(frozen=True)
class _Tested:
    hypothesis: HypothesisResult
    refined: Refined
    held_out: HeldOut
    rule: Sampling

    @property
    def described(self) -> Counted[HuntedItem]:
        return self.held_out.described

    @property
    def baseline(self) -> Counted[HuntedItem]:
        return self.held_out.baseline


def bugs_of(hunt: Hunt, hypotheses: Sequence[HypothesisResult]) -> list[Bug]:
    """Return the winners as bugs, each tested on held-out images and corrected over all of them (Holm)."""
    found = {each.number: each for each in hypotheses}
    tested = [
        _tested(found[each.winner], each, hunt)
        for label in hunt.request.labels
        for each in refined(hunt, label)
        if found[each.winner].state == "winner"
    ]
    adjusted = holm([each.held_out.p for each in tested])
    bugs = [
        _bug(hunt, each, p if each.described.counts.images else None)
        for each, p in zip(tested, adjusted, strict=True)
    ]
    bugs.sort(key=lambda bug: (_ORDER.index(bug.state), bug.p_adjusted or 0.0, bug.hypothesis))
    return [bug.model_copy(update={"number": number}) for number, bug in enumerate(bugs, start=1)]


def _tested(hypothesis: HypothesisResult, refined: Refined, hunt: Hunt) -> _Tested:
    number = refined.final.number
    held_out = HeldOut.of(hunt, hypothesis.label, number, refined.classifier)
    return _Tested(hypothesis, refined, held_out, held_out_rule(hunt.config))


def _bug(hunt: Hunt, tested: _Tested, p_adjusted: float | None) -> Bug:
    hypothesis, criterion, final = tested.hypothesis, hunt.request.criterion, tested.refined.final
    label, classifier = hypothesis.label, tested.refined.classifier
    held_out = failure_rate(tested.described, criterion, tested.rule)
    answers = taken_for(tested.described, classifier, label)
    items = hunt.record.of_label("held-out", label, final.number)
    mentions, part = mentions_of(hunt, label, final.told.words, tested.described)
    others = {
        name: failure_rate(hunt.record.counted("held-out", label, name, final.number), criterion, tested.rule)
        for name in hunt.request.classifiers
        if name != classifier and items
    }
    state = state_of(tested.described, tested.baseline, p_adjusted)
    bug = Bug(
        number=1,
        state=state,
        description=final.told.prompt or "",
        words=final.told.words,
        label=label,
        classifier=classifier,
        hypothesis=hypothesis.number,
        failure_rate=held_out.rate,
        at_least=_at_least(hunt.config, tested) if state == "breaks" else None,
        ratio=ratio_of(tested.described.counts, tested.baseline.counts, tested.rule),
        held_out=held_out,
        baseline=failure_rate(tested.baseline, criterion, tested.rule),
        discovery=hypothesis.discovery,
        p_adjusted=p_adjusted,
        found_as=hypothesis.prompt if final.number != hypothesis.number else None,
        unrefined=_form_rate(hunt, tested, hypothesis.number) if tested.refined.tried else None,
        refinement=[
            RefinedForm(
                number=form.number,
                refines=form.told.refines or hypothesis.number,
                prompt=form.told.prompt or "",
                left_out=form.told.left_out,
                rule="part" if form.told.source == "part" else "adjective",
                failure=_form_rate(hunt, tested, form.number),
                need=need,
            )
            for form, need in tested.refined.tried
        ],
        mentions=mentions,
        contribution=part,
        taken_for=next(iter(answers), None),
        confusions=_confusions(tested, label),
        photographs=photograph_rates(hunt, label, final.number, classifier),
        others=others,
        images=shown_images(tested.described.failures, classifier),
        sentence="",
    )
    return bug.model_copy(update={"sentence": sentence(bug)})


def _at_least(config: BugHuntConfig, tested: _Tested) -> float | None:
    """The failure rate that a user's own images surely reach; of numbers of images that no look chose."""
    if config.generator_gap is None or not (tested.held_out.is_fixed and tested.described.is_whole):
        return None
    counts = tested.described.counts
    return least_rate(counts.failures, counts.images, config.generator_gap)


def _confusions(tested: _Tested, label: str) -> list[Confusion]:
    after, before = (
        taken_for(counted, tested.refined.classifier, label)
        for counted in (tested.described, tested.baseline)
    )
    frequent = sorted({*after, *before}, key=lambda name: (-after.get(name, 0), -before.get(name, 0), name))
    return [
        Confusion(answer=name, described=after.get(name, 0), baseline=before.get(name, 0))
        for name in frequent[:SHOWN_ANSWERS]
    ]


def _form_rate(hunt: Hunt, tested: _Tested, number: int) -> FailureRate:
    told = tested.hypothesis
    counted = hunt.record.counted("refinement", told.label, tested.refined.classifier, number)
    return failure_rate(counted, hunt.request.criterion)


def state_of(
    described: Counted[HuntedItem], baseline: Counted[HuntedItem], p_adjusted: float | None
) -> FindingState:
    """Return what held-out images say of a description, in the words of a stress test's findings."""
    if p_adjusted is None:
        return "suspected"
    ours, theirs = described.counts, baseline.counts
    if described.hidden > ours.images:
        return "test-unfit"
    if p_adjusted <= LEVEL:
        return "breaks"
    is_above = ours.failures * theirs.images > theirs.failures * ours.images
    return "cannot-tell" if is_above else "holds"


def sentence(bug: Bug) -> str:
    """Say a bug in one sentence: the description, what it is taken for, k of n, and the ratio."""
    taken = f"is called {bug.taken_for}" if bug.taken_for else "is not recognised"
    counts = bug.held_out
    if bug.p_adjusted is None:
        seen = bug.discovery
        return (
            f"{bug.classifier}: “{bug.description}” failed on {seen.failures} of {seen.rate.n} images by "
            "which it was chosen; no held-out image was made"
        )
    said = (
        f"{bug.classifier}: “{bug.description}” {taken}: {counts.failures} of {counts.rate.n} held-out images"
    )
    return f"{said} of this generator fail, {_against(bug.baseline, bug.ratio.ratio)}"


def _against(baseline: FailureRate, ratio: float | None) -> str:
    counts = f"{baseline.failures} of {baseline.rate.n} of the label alone"
    return counts if ratio is None else f"{ratio:.1f} times the baseline ({counts})"


def shown_images(failures: Sequence[HuntedItem], classifier: str) -> list[BugImage]:
    """Return the first failures, as reports show them."""
    return [
        BugImage(item=item.id, image=item.result.image, answer=item.result.predictions[classifier].answer)
        for item in failures[:SHOWN_IMAGES]
        if item.result is not None
    ]


def verdict(
    run: Run,
    config: BugHuntConfig,
    bugs: Sequence[Bug],
    baselines: Sequence[LabelBaseline],
    edited: Sequence[EditedCaptions],
    tried: int,
) -> str:
    """Return the hunt in one sentence, or two: a label that mostly fails needs no description."""
    proven = [bug for bug in bugs if bug.state == "breaks"]
    ended = run.state in FINAL_RUN_STATES
    if proven:
        others = len(proven) - 1
        more = f"; {others} more bug{'s are' if others > 1 else ' is'} proven" if others else ""
        return f"{proven[0].sentence}{more}"
    if config.request.descriptions and bugs:
        return bugs[0].sentence
    labels = ", ".join(config.request.labels[:3]) + (" …" if len(config.request.labels) > 3 else "")
    alone, edits = _mostly_failing(baselines), _on_edited(edited)
    if not ended:
        return f"{alone}No bug of {labels} is proven so far; {tried} descriptions were tried.{edits}"
    tested = f"{tried} descriptions were tried, which proves none absent"
    return f"{alone}No bug of {labels} was proven; {tested}.{edits}"


def _on_edited(edited: Sequence[EditedCaptions]) -> str:
    """Say how many images of edited captions failed, where any was made: they are most of what was seen."""
    images = sum(each.failure.rate.n for each in edited)
    failures = sum(each.failure.failures for each in edited)
    return f" Of {images} answers to images of edited captions, {failures} failed." if images else ""


def _mostly_failing(baselines: Sequence[LabelBaseline]) -> str:
    """Name the label alone that fails most, if more than half of its images do."""
    known = [each for each in baselines if each.failure.rate.low is not None and each.failure.rate.low > 0.5]
    if not known:
        return ""
    worst = max(known, key=lambda each: each.failure.rate.estimate or 0.0)
    called = f", mostly called {next(iter(worst.taken_for))}" if worst.taken_for else ""
    counts = f"{worst.failure.failures} of {worst.failure.rate.n}"
    return f"{worst.classifier} fails on {worst.label} itself: {counts} images of “{worst.prompt}”{called}. "
