"""Insights of a run of one stage as findings: how many answers flip, to which class, and on which images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median_low

from faultline_core.contract.findings import Finding, FindingPair, FindingState, Screened
from faultline_core.contract.stress_tests import Insight
from faultline_core.statistics.bootstrap import mean_by_source
from faultline_core.stress_test.insights import LEAST_SOURCES, Pattern, group_by_words
from faultline_core.stress_test.screening import LEAST_LOSS
from faultline_gateway.methods.stress_test.summary.evidence import Evidence, Shot, best
from faultline_gateway.methods.stress_test.summary.sentences import finding_sentence

MOST_FLIP = 0.5
"""A change that makes more than this share of the answers wrong is suspected without an interval: with
three or four sources no interval that covers excludes 0."""


_SUREST: tuple[FindingState, ...] = ("breaks", "suspected", "cannot-tell")
_COVERED = 0.8


def as_findings(insights: Sequence[Insight], seen: Sequence[Evidence]) -> list[Finding]:
    """Turn insights into findings: ``breaks`` if tested, ``suspected`` if clear of the controls.

    A hint that is neither is ``cannot-tell``. The surest come first, then those that flip most answers;
    their number is 0, as the summary does not list them. A finding whose images surer ones have is left
    out: "yellow becomes blue" is a part of "yellow is gone".
    """
    by_classifier = {evidence.classifier: evidence for evidence in seen}
    changes = {name: _shots_by_change(evidence) for name, evidence in by_classifier.items()}
    found: list[tuple[Finding, set[str]]] = []
    for insight in insights:
        evidence = by_classifier.get(insight.classifier)
        shots = _shots_of(insight, changes[insight.classifier], evidence) if evidence else []
        if evidence is not None and shots:
            found.append((_finding(insight, shots, evidence), {shot.item.id for shot in shots}))
    found.sort(key=lambda one: (_SUREST.index(one[0].state), -one[0].flipped, -one[0].screened.loss))
    told: dict[str, set[str]] = {name: set() for name in by_classifier}
    listed = []
    for finding, items in found:
        if len(items & told[finding.classifier]) < _COVERED * len(items):
            listed.append(finding)
            told[finding.classifier] |= items
    return listed


def state_of(insight: Insight, screened: Screened, flipped: int) -> FindingState:
    """How sure an insight is that makes ``flipped`` answers wrong: shown, suspected, or neither."""
    if insight.significant:
        return "breaks"
    if screened.loss <= LEAST_LOSS or screened.n_sources < LEAST_SOURCES:
        return "cannot-tell"
    beyond = insight.beyond_controls
    clear = beyond is not None and beyond.low is not None and beyond.low > LEAST_LOSS
    most = flipped >= LEAST_SOURCES and flipped > MOST_FLIP * screened.n_sources
    return "suspected" if clear or most else "cannot-tell"


Change = tuple[str, str, str, str]
"""Class, edit type, removed and added words."""


def _change(spoken: Pattern) -> Change:
    return spoken.object_class, spoken.edit_type, spoken.removed, spoken.added


def _shots_by_change(evidence: Evidence) -> dict[Change, list[Shot]]:
    by_item = {shot.item.id: shot for shot in evidence.edits}
    return {
        _change(group.spoken): [by_item[effect.item] for effect in group.effects]
        for group in group_by_words(evidence.effects)
    }


def _shots_of(insight: Insight, by_change: Mapping[Change, list[Shot]], evidence: Evidence) -> list[Shot]:
    if insight.cluster_items:
        members = set(insight.cluster_items)
        return [shot for shot in evidence.edits if shot.item.id in members]
    named = (insight.object_class, insight.edit_type, insight.removed, insight.added)
    return by_change.get(named) or [shot for shot in evidence.edits if shot.item.id == insight.example_item]


def _finding(insight: Insight, shots: Sequence[Shot], evidence: Evidence) -> Finding:
    controls = {shot.source: shot for shot in (*evidence.reconstructions, *evidence.placebos)}
    flips = {shot.item.id: shot for shot in shots if _flips(shot, controls.get(shot.source))}
    pairs = _pairs(shots, controls)
    # Of the shown edits: with several edits of an image, one that flips would often be found by chance.
    shown = [flips[pair.edit] for pair in pairs if pair.edit in flips]
    screened = Screened(
        loss=fmean(mean_by_source((s.unit, _fall(s, controls.get(s.source))) for s in shots).values()),
        n_sources=len(pairs),
        n_images=len(shots),
        flipped=len({shot.unit for shot in flips.values()}),
    )
    finding = Finding(
        number=0,
        state=state_of(insight, screened, len(shown)),
        classifier=insight.classifier,
        object_class=insight.object_class,
        edit_type=insight.edit_type,
        removed=insight.removed,
        added=insight.added,
        taken_for=most_common(best(shot.after) for shot in shown),
        flipped=len(shown),
        of=len(pairs),
        screened=screened,
        confirmed=None,
        pairs=pairs,
        sentence="",
    )
    return finding.model_copy(update={"sentence": finding_sentence(finding)})


def _flips(shot: Shot, control: Shot | None) -> bool:
    """Whether an edit loses an answer that original and control have right."""
    right = shot.before.rank_true == 1 and (control is None or control.after.rank_true == 1)
    return right and shot.after.rank_true > 1


def most_common(answers: Iterable[str]) -> str | None:
    """The most frequent answer, the first in the alphabet where several are; None without any."""
    counts = Counter(answers)
    return min(counts, key=lambda name: (-counts[name], name), default=None)


def _pairs(shots: Sequence[Shot], controls: Mapping[str, Shot]) -> list[FindingPair]:
    """One pair a source, or a group of them, of its edit with the median loss.

    The median source comes first, then those with the largest loss.
    """
    by_unit: dict[str, list[Shot]] = {}
    for shot in shots:
        by_unit.setdefault(shot.unit, []).append(shot)
    medians = [_median(of_unit, controls) for of_unit in by_unit.values()]
    pairs = [_pair(shot, controls.get(shot.source)) for shot in medians]
    ranked = sorted(pairs, key=lambda pair: (-pair.loss, pair.edit))
    middle = median_low(range(len(ranked)))
    return [ranked[middle], *ranked[:middle], *ranked[middle + 1 :]]


def _median(shots: Sequence[Shot], controls: Mapping[str, Shot]) -> Shot:
    ranked = sorted(shots, key=lambda shot: (_fall(shot, controls.get(shot.source)), shot.item.id))
    return ranked[median_low(range(len(ranked)))]


def _fall(shot: Shot, control: Shot | None) -> float:
    return (shot.before if control is None else control.after).p_true - shot.after.p_true


def _pair(shot: Shot, control: Shot | None) -> FindingPair:
    return FindingPair(
        source=shot.source,
        control=None if control is None else control.item.id,
        edit=shot.item.id,
        loss=_fall(shot, control),
        answer=best(shot.after),
    )
