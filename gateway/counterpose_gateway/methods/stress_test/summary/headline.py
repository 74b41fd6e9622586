"""The run in words: a headline, a line on each classifier, and what was tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.findings import ClassifierVerdict, Finding, FindingState
from counterpose_core.contract.stress_tests import Insight, InterventionSummary
from counterpose_gateway.methods.stress_test.summary.measured import SUSPECTED, precision_in_words
from counterpose_gateway.methods.stress_test.summary.verdict import STATES
from counterpose_gateway.reports.reasons import why_left_out

_MOST_CHOSEN = 8
_MOST_REASONS = 3
NO_VERDICT, NOTHING_SAID = "No verdict: ", "this run says nothing about these classifiers."


def of_edits(line: str) -> str:
    """What the first line of a run of edits says beside operations, which may say something."""
    if not line.startswith(NO_VERDICT):
        return line
    told = line.removeprefix(NO_VERDICT).replace(
        NOTHING_SAID, "its edits say nothing about these classifiers."
    )
    return told[:1].upper() + told[1:]


def verdict_text(
    verdicts: Sequence[ClassifierVerdict],
    findings: Sequence[Finding],
    insights: Sequence[Insight],
    counts: Mapping[str, int],
    interventions: Sequence[InterventionSummary] = (),
    *,
    proposed: bool = True,
    dropped: Mapping[str, int] | None = None,
) -> str:
    """Write the headline and one line for each classifier, then what was tested.

    ``verdicts`` is empty where no proposed edit was kept; ``dropped`` counts the filtered items by reason.
    The user's own edits come last; a run that has ``proposed`` no others gets no other line.
    """
    if verdicts:
        lines = [headline(verdicts), *(verdict.sentence for verdict in verdicts)]
        if proposed:
            lines.append(what_was_tested(findings, insights))
        if any(verdict.state == "suspected" for verdict in verdicts):
            lines += filter(None, [precision_in_words(SUSPECTED)])
    elif any(summary.kept for summary in interventions):
        lines = ["No proposed edit survived with its control."]
    else:
        return (
            f"{NO_VERDICT}no edit of {counts['planned']} planned items survived with its control"
            f"{_most_dropped(dropped or {})}, so {NOTHING_SAID}"
        )
    lines += _chosen(interventions)
    unfinished = counts["failed"] + counts["cancelled"] + counts.get("pending", 0)
    if unfinished:
        lines.append(
            f"{unfinished} of {counts['planned']} planned items failed, were cancelled or are not done; "
            "the figures do not include them."
        )
    return "\n".join(lines)


def _most_dropped(dropped: Mapping[str, int]) -> str:
    """The most frequent reasons in brackets; nothing where no item was filtered."""
    often = sorted(dropped, key=lambda reason: (-dropped[reason], reason))[:_MOST_REASONS]
    told = (f"{dropped[reason]}: {why_left_out(reason)}" for reason in often)
    return f" ({'; '.join(told)})" if often else ""


def _chosen(interventions: Sequence[InterventionSummary]) -> list[str]:
    """The effects of the user's own edits: all if there are few, otherwise those that were shown."""
    sentences = [
        (sentence, model.significant)
        for summary in interventions
        for sentence, model in zip(summary.sentences, summary.models.values(), strict=True)
    ]
    if len(sentences) <= _MOST_CHOSEN:
        return [sentence for sentence, _ in sentences]
    shown = [sentence for sentence, significant in sentences if significant]
    rest = len(sentences) - len(shown)
    return [*shown, f"No drop was shown for {rest} of {len(sentences)} pairs of classifier and chosen edit."]


def headline(verdicts: Sequence[ClassifierVerdict]) -> str:
    """The run in one sentence."""
    states = [verdict.state for verdict in verdicts]
    if not states:
        return "No classifier was tested."
    worst = min(states, key=STATES.index)
    number, of = states.count(worst), len(states)
    if of == 1:
        return _ALONE[worst]
    many = f"All {of} models" if number == of else f"{number} of {of} models"
    verb = number != 1
    return {
        "breaks": f"{many} {'break' if verb else 'breaks'} when one thing in the image changes.",
        "suspected": f"{many} {'look' if verb else 'looks'} fooled by something other than the object.",
        "test-unfit": f"{many} cannot be tested: editing alone changes too many answers.",
        "cannot-tell": f"{many} could not be judged either way.",
        "holds": f"{many} {'hold' if verb else 'holds'}.",
    }[worst]


_ALONE: dict[FindingState, str] = {
    "breaks": "The model breaks when one thing in the image changes.",
    "suspected": "The model looks fooled by something other than the object.",
    "test-unfit": "The test is unfit: editing alone changes too many answers.",
    "cannot-tell": "The model could not be judged either way.",
    "holds": "The model holds.",
}


def what_was_tested(findings: Sequence[Finding], insights: Sequence[Insight]) -> str:
    """What was tested: the second line of the report."""
    tested = [finding for finding in findings if finding.confirmed is not None]
    if tested:
        scopes = [one.confirmed.scope for one in tested if one.confirmed and one.state == "breaks"]
        return _proven(len(tested), scopes)
    if any(insight.significant for insight in insights):
        shown = sum(insight.significant for insight in insights)
        return f"{shown} change{'s were' if shown != 1 else ' was'} shown to hurt more than the editor alone."
    family = max((insight.family_size for insight in insights), default=0)
    if family:
        return f"None of {family} tested changes of words was shown to hurt more than the editor alone."
    if insights and all(insight.p is None for insight in insights):
        return "No change of words could be tested: no placebo was kept to compare edits with."
    if insights:
        largest = max(insight.n_sources for insight in insights)
        needed = min((insight.sources_needed for insight in insights if insight.sources_needed), default=None)
        takes = f", a test takes {needed}" if needed else ""
        return f"No change of words could be tested: the largest group has {largest} sources{takes}."
    return "No change of words lowers the score on three or more sources of a class."


def _proven(tested: int, scopes: Sequence[str]) -> str:
    if not scopes:
        return (
            "One change was tested, and not proven."
            if tested == 1
            else f"None of {tested} changes was proven."
        )
    if tested == 1:
        return f"One change was tested, and {_proven_on(scopes)}."
    verb = "was" if len(scopes) == 1 else "were"
    return f"{len(scopes)} of {tested} changes {verb} {_proven_on(scopes)}."


def _proven_on(scopes: Sequence[str]) -> str:
    """On which images the changes were proven; what holds of a few images alone is not called proven."""
    few = scopes.count("images")
    if not few:
        return "proven on images that the search did not use"
    on = "a few images, each edited several times"
    return f"shown to hurt {on}" if few == len(scopes) else f"proven, {few} of them only for {on}"
