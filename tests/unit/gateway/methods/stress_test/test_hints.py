"""Hints of a run of one stage: which words are behind the harm, and the one rule of suspicions."""

from __future__ import annotations

import pytest

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.perturber import WordSpan
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.hints import as_findings
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config


def replaced(*changes: tuple[str, str, float]) -> Ledgered:
    """A source for each (removed, added, p of the true class), all edits of the type object."""
    ledgered = Ledgered()
    for at, (removed, added, p) in enumerate(changes):
        ledgered.add(f"source-{at}", "reconstruction")
        ledgered.add(f"source-{at}", "placebo")
        edit = ledgered.add(f"source-{at}", edit_type="object", after={"steady": 0.9, "leaning": p})
        assert edit.result is not None
        words = {
            "caption": f"a red sled and a {removed}",
            "edited_caption": f"a red sled and a {added}",
            "removed": [WordSpan(words=[removed], start=5)],
            "added": [WordSpan(words=[added], start=5)],
        }
        ledgered.items[-1] = edit.model_copy(update={"result": edit.result.model_copy(update=words)})
    return ledgered


def findings(ledgered: Ledgered, *, significant: bool = False, named: bool = False) -> list[Finding]:
    """The findings of all edits of the type, or of the first ``named`` insight, tested or not."""
    made = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    words = {} if named else {"removed": "", "added": ""}
    insights = [one.model_copy(update={"significant": significant, **words}) for one in made.insights[:1]]
    return as_findings(insights, [Evidence.of(ledgered.items, "leaning")], LanceEstimator(0))


BALLS = (("ball", "hat", 0.1), ("ball", "cup", 0.2), ("ball", "box", 0.1), ("ball", "car", 0.15))
OTHERS = (("tree", "bush", 0.9), ("cat", "dog", 0.88), ("bird", "fish", 0.9))


def test_a_hint_names_the_words_that_do_it() -> None:
    [finding] = findings(replaced(*BALLS, *OTHERS))
    assert (finding.removed, finding.added, finding.of) == ("ball", "", 4)
    assert finding.sentence == (
        "leaning takes sleds for boats once “ball” becomes something else: 4 of 4 images, not yet tested."
    )


def test_a_tested_type_of_edits_keeps_its_images_and_tells_the_words_beside() -> None:
    [finding] = findings(replaced(*BALLS, *OTHERS), significant=True)
    assert (finding.state, finding.removed, finding.of) == ("breaks", "", 7)
    assert finding.sentence == "leaning takes sleds for boats mostly once “ball” changes: 4 of 7 images."


def test_a_type_of_edits_that_hurts_whatever_its_words_is_told_as_such() -> None:
    all_bad = [(removed, added, 0.1) for removed, added, _ in (*BALLS, *OTHERS)]
    [finding] = findings(replaced(*all_bad))
    assert finding.sentence == (
        "leaning takes sleds for boats when the object changes: 7 of 7 images, not yet tested."
    )


@pytest.mark.parametrize(
    ("p", "number", "state"),
    [(0.2, 3, "suspected"), (0.2, 2, None), (0.7, 3, "cannot-tell"), (0.7, 60, "suspected")],
)
def test_a_suspicion_takes_turned_answers_or_a_clear_interval(
    p: float, number: int, state: str | None
) -> None:
    ledgered = replaced(*[("ball", "hat", p)] * number)
    assert [one.state for one in findings(ledgered, named=True)] == ([] if state is None else [state])


def test_edits_without_a_control_are_no_finding() -> None:
    ledgered = replaced(*BALLS)
    ledgered.items = [item for item in ledgered.items if item.kind == "edit"]
    assert findings(ledgered) == []
