"""Findings as the report shows them: cards with all their image pairs, and every model's rate on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from counterpose_core.commands import NextStep, next_step
from counterpose_core.contract.findings import Confirmed, Finding, FindingPair
from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import Insight, StressTestSummary
from counterpose_core.contract.tasks import TaskFigures
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of
from counterpose_gateway.methods.stress_test.report.captions import Segment, mark
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.finding_sentences import when_changed
from counterpose_gateway.methods.stress_test.summary.hints import as_findings, change_key
from counterpose_gateway.methods.stress_test.summary.mixed import edits_backend
from counterpose_gateway.methods.stress_test.summary.sentences import in_words, p_in_words
from counterpose_gateway.reports.images import Album, Inline
from counterpose_gateway.reports.numbers import counted, percent, signed
from counterpose_gateway.reports.reasons import why_left_out
from counterpose_gateway.reports.states import BADGES

SHOWN_FINDINGS = 9
"""Findings with images; the others are listed in words."""

SHOWN_PAIRS = 6
"""Image pairs of one finding; the rates cover all of them."""


@dataclass(frozen=True)
class Answer:
    """What a classifier says of an image."""

    text: str
    right: bool

    @classmethod
    def of(cls, prediction: Scored) -> Answer:
        """The best class with its probability."""
        return cls(f"{prediction.answer} {percent(prediction.share)}", prediction.right)


@dataclass(frozen=True)
class ShownPair:
    """An original and its edit with the classifier's answers, and its answer on the control.

    ``redrawn`` is the image of the control where it is shown: in the pairs of the first screen.
    ``changed`` is what the control shows: the same meaning, or one of two conditions.
    """

    item: str
    label: str
    before: Inline | None
    after: Inline | None
    caption: list[Segment]
    edited_caption: list[Segment]
    answer_before: Answer
    answer_after: Answer
    control: Answer | None
    redrawn: Inline | None = None
    changed: str = "the same meaning"
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class Rate:
    """How many of a finding's edits make a model's right answer wrong."""

    flipped: int
    of: int

    @property
    def level(self) -> int:
        """0 for none, 1 below a third, 2 below two thirds, 3 above."""
        return 0 if not self.flipped else 1 + min(2, int(3 * self.flipped / self.of))


@dataclass(frozen=True)
class ShownFinding:
    """A finding with its images; ``anchor`` is its place in the page."""

    anchor: str
    state: str
    finding: Finding
    sentence: str
    redraws: str
    pairs: list[ShownPair]
    confidence: str
    certainty: list[str]
    next_step: NextStep | None
    rates: Mapping[str, Rate]

    @property
    def badge(self) -> str:
        """Its state as icon and word."""
        return BADGES[self.state]


Made = Mapping[str, tuple[Item, ItemResult]]
"""Items with results, by id."""


def findings_of(summary: StressTestSummary, items: ItemColumns | Sequence[Item]) -> list[Finding]:
    """The findings of the run; one of a single stage has none, so its insights take their place as hints."""
    if summary.findings:
        return summary.findings
    columns = items if isinstance(items, ItemColumns) else columns_of(items, groups_of(summary))
    seen = [Evidence.of(columns, classifier) for classifier in summary.models]
    found = as_findings(summary.insights, seen, LanceEstimator(summary.seed))
    backend = edits_backend(summary)
    return [
        finding.model_copy(update={"number": number, "backend": backend})
        for number, finding in enumerate(found, start=1)
    ]


def groups_of(summary: StressTestSummary) -> Mapping[str, str]:
    """The groups of the run's sources that are not independent, by source."""
    grouping = summary.config.get("grouping")
    return {} if grouping is None else Grouping.model_validate(grouping).groups


def shown_findings(
    summary: StressTestSummary, findings: Sequence[Finding], made: Made, album: Album
) -> list[ShownFinding]:
    """The first findings with those of their pairs that are found among the run's items."""
    return [_shown(finding, summary, made, album) for finding in findings[:SHOWN_FINDINGS]]


def first_of(shown: Sequence[ShownFinding], made: Made, album: Album, run: str) -> ShownFinding | None:
    """The finding of the first screen, its clearest pair first and every pair with its control; or None."""
    first = next((one for one in shown if one.pairs and one.state in ("breaks", "suspected")), None)
    if first is None:
        return None
    name = first.finding.classifier
    known = [pair for pair in first.finding.pairs if _knows(name, made.get(pair.edit))]
    clearest = max(known, key=lambda pair: _clearness(pair, name, made))
    chosen = [clearest, *(pair for pair in known if pair is not clearest)][:SHOWN_PAIRS]
    pairs = [_pair(first.finding, pair, made, album, run, with_control=True) for pair in chosen]
    return replace(first, pairs=pairs)


def _clearness(pair: FindingPair, classifier: str, made: Made) -> tuple[bool, float]:
    """How well a pair shows its change alone: the control is answered rightly, the edit is not.

    Then by CLIP's likeness to the original of whichever, edit or control, is less like it: weather that comes
    or goes beside the words lowers it. Of pairs without scores the first, median one stays.
    """
    edit = made[pair.edit][1]
    _, control = made.get(pair.control or "", (None, None))
    both = [edit] if control is None else [edit, control]
    right = [_is_right(one.predictions.get(classifier)) for one in both]
    turned = not right[0] and right[-1] and _is_right(edit.original_predictions.get(classifier))
    return turned, min((one.scores.image_image for one in both if one.scores is not None), default=-1.0)


def _is_right(prediction: Scored | None) -> bool:
    return prediction is not None and prediction.right


def _shown(finding: Finding, summary: StressTestSummary, made: Made, album: Album) -> ShownFinding:
    is_hint = not summary.findings and finding.state == "cannot-tell"
    known = [pair for pair in finding.pairs if _knows(finding.classifier, made.get(pair.edit))]
    return ShownFinding(
        anchor=f"finding-{finding.number}",
        state="hint" if is_hint else finding.state,
        finding=finding,
        sentence=finding.sentence,
        redraws=_redraws(finding),
        pairs=[_pair(finding, pair, made, album, summary.run_id) for pair in known[:SHOWN_PAIRS]],
        confidence=_confidence(finding, known, made, summary.task),
        certainty=_certainty(finding, summary),
        next_step=next_step(summary, finding),
        rates=rates(summary.models, known, made),
    )


def _knows(classifier: str, found: tuple[Item, ItemResult] | None) -> bool:
    return found is not None and all(
        classifier in said for said in (found[1].predictions, found[1].original_predictions)
    )


def _redraws(finding: Finding) -> str:
    """What a count of repeats means, where the sentence has one."""
    if finding.confirmed is None or finding.confirmed.scope != "images":
        return ""
    few = "this image" if finding.confirmed.n_sources == 1 else f"these {finding.confirmed.n_sources} images"
    return (
        "A repeat is the same edit of an image made once more, which differs by chance, beside a control of "
        f"the same meaning. The count speaks of {few}, not of others."
    )


def _pair(
    finding: Finding, pair: FindingPair, made: Made, album: Album, run: str, *, with_control: bool = False
) -> ShownPair:
    item, result = made[pair.edit]
    control = made.get(pair.control or "")
    said = control[1].predictions.get(finding.classifier) if control else None
    shows = with_control and control is not None and said is not None
    return ShownPair(
        item=item.id,
        label=item.label,
        before=album.original(item.source_image),
        after=album.generated(result.image, run=run, item=item.id),
        caption=mark(result.caption, result.removed),
        edited_caption=mark(result.edited_caption or result.caption, result.added),
        answer_before=Answer.of(result.original_predictions[finding.classifier]),
        answer_after=Answer.of(result.predictions[finding.classifier]),
        control=None if said is None else Answer.of(said),
        redrawn=album.generated(control[1].image, run=run, item=control[0].id) if control and shows else None,
        changed=_control_changes(finding, None if control is None else control[0]),
        faults=[] if result.preservation is None else result.preservation.faults,
    )


def _control_changes(finding: Finding, control: Item | None) -> str:
    """What the control of a pair shows."""
    asked = None if control is None or control.instruction is None else control.instruction.conjunction
    if not finding.conjunction or asked is None:
        return "the same meaning"
    return f"“{finding.conjunction[asked.shows == 'second'].words}” alone"


def _confidence(finding: Finding, pairs: Sequence[FindingPair], made: Made, figures: TaskFigures) -> str:
    """Mean score before and after the change, and of the controls."""
    if not pairs:
        return ""
    name, results = finding.classifier, [made[pair.edit][1] for pair in pairs]
    before = percent(fmean(result.original_predictions[name].score for result in results))
    after = percent(fmean(result.predictions[name].score for result in results))
    label = finding.object_class
    what = f"On “{label}”, {figures.score}"
    if figures.score_of(label) != figures.score:
        what = f"Confidence in “{label}”"
    said = f"{what} goes from {before} to {after} on average"
    controls = [made[key][1].predictions for pair in pairs if (key := pair.control or "") in made]
    known = [predictions[name].score for predictions in controls if name in predictions]
    changed = "With one of the two alone" if finding.conjunction else "Edited to the same meaning"
    said += f". {changed}, it is {percent(fmean(known))}." if known else "."
    return said.replace(" %", "\u00a0%")


def _certainty(finding: Finding, summary: StressTestSummary) -> list[str]:
    """The test behind a finding, with its interval, or why there was none."""
    tested = finding.confirmed
    if tested is None:
        insight = _insight(finding, summary.insights)
        told = [insight.sentence] if insight is not None else []
        screened = finding.screened
        fall = f"{signed(-screened.loss, 2)} on {counted(screened.n_sources, 'image')}"
        return [
            *told,
            f"Change of {summary.task.score_of(finding.object_class)} beyond the control of the same image: "
            f"{fall}. It was chosen because it is large, so the true change is probably smaller.",
            *_why(finding),
        ]
    stopped = " The test stopped early: its first pairs showed too little." if tested.stopped else ""
    lost = "; ".join(f"{number} as {why_left_out(reason)}" for reason, number in tested.dropped.items())
    left_out = f" (left out: {lost})" if lost else ""
    if tested.e_value is not None:
        return [
            f"Pairs of all runs that prove this finding, each with a control of its own: a loss of "
            f"{in_words(tested.loss)}, {p_in_words(tested.p_adjusted)} for all {tested.family_size} findings "
            "together, which holds however often one looks and goes on.",
            *_why(finding),
            f"{tested.loss.n} of {tested.planned} planned pairs were kept{left_out}.",
        ]
    return [
        *_by_wording(finding),
        *_alone(finding),
        f"{_tested_on(tested)}: a loss of {in_words(tested.loss)}, {_p_of(tested)}.{stopped}",
        *_why(finding),
        # Older versions counted pairs by the loss alone.
        f"{tested.n_pairs or tested.loss.n} of {tested.planned} planned pairs were kept{left_out}.",
    ]


def _by_wording(finding: Finding) -> list[str]:
    """What each wording came to, where a change was shown by several."""
    if len(finding.wordings) <= 1:
        return []
    said = [
        f"{when_changed(each.removed, each.added).removeprefix('once ')}: {each.flipped} of {each.n}"
        f" turn wrong{'' if each.named else ', not counted here'}"
        for each in finding.wordings
    ]
    return [f"By wording: {'; '.join(said)}."]


def _alone(finding: Finding) -> list[str]:
    """What each of two conditions does without the other."""
    if not finding.conjunction:
        return []
    said = "; ".join(f"“{each.words}”: {each.wrong} of {each.n} wrong" for each in finding.conjunction)
    return [f"Alone: {said}. The loss is counted from the image with one of them that has the lower score."]


def _p_of(tested: Confirmed) -> str:
    """The p of a test and the corrected one, once where both read alike."""
    plain, corrected = p_in_words(tested.p), p_in_words(tested.p_adjusted)
    told = f"{corrected} after Holm's correction over {counted(tested.family_size, 'change')}"
    return told if plain == corrected else f"{plain}, {told}"


def _why(finding: Finding) -> list[str]:
    """The rule by which nothing was decided."""
    return [f"Why it cannot tell: {finding.why}"] if finding.why else []


def _tested_on(tested: Confirmed) -> str:
    """Which images a test is about, as the start of a sentence."""
    if tested.scope == "class":
        return "Tested on images that the search did not use, each with a control of its own"
    return (
        f"Tested on {counted(tested.n_sources, 'image')}, each edited several times, as too few others "
        "were left; of other images it says nothing"
    )


def _insight(finding: Finding, insights: Sequence[Insight]) -> Insight | None:
    return next((insight for insight in insights if change_key(insight) == change_key(finding)), None)


def rates(models: Mapping[str, object], pairs: Sequence[FindingPair], made: Made) -> dict[str, Rate]:
    """Each model's rate over the edits of a finding, where it has answered them."""
    results = [made[pair.edit][1] for pair in pairs]
    found = {name: [_flips(result, name) for result in results] for name in models}
    known = {name: [flip for flip in flips if flip is not None] for name, flips in found.items()}
    return {name: Rate(sum(flips), len(flips)) for name, flips in known.items() if flips}


def _flips(result: ItemResult, name: str) -> bool | None:
    before, after = result.original_predictions.get(name), result.predictions.get(name)
    if before is None or after is None:
        return None
    return before.right and not after.right
