"""Applying one insight's edit to a whole dataset (LANCE, fig. 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import Insight, StressTestCreate, StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.caption_diff import words

_KEPT = (
    "dataset",
    "classifiers",
    "function_specs",
    "preset",
    "selection",
    "self_replace",
    "thresholds",
    "exclude",
    "outside_suite",
)
"""What the new run takes from the first; it uses every image, whatever the first run's limit."""

_SEEDS = 2**63
_GAP = "…"
_MOST_UNCHANGED = 4
"""Unchanged words between changed ones that may still belong to one phrase."""


def insight_of(summary: StressTestSummary, insight: Insight | int) -> Insight:
    """Return the insight, or the one with this number in the report, from 1.

    Raises:
        InvalidRequest: no insight has this number.
    """
    if isinstance(insight, Insight):
        return insight
    if not 1 <= insight <= len(summary.insights):
        raise InvalidRequest(f"run {summary.run_id} has no insight {insight}: it has {len(summary.insights)}")
    return summary.insights[insight - 1]


def needs_example(insight: Insight) -> bool:
    """Whether the insight leaves words open, which its example item must provide."""
    return not insight.removed or not insight.added or _GAP in insight.removed + insight.added


def insight_request(
    summary: StressTestSummary,
    insight: Insight,
    example: Item | None,
    seed: int | None,
    functions_named: Callable[[Sequence[str]], dict[str, str]] = lambda names: {},
) -> StressTestCreate:
    """Build the request for a stress test that makes this edit alone.

    Args:
        summary: the run's summary, which holds the insight.
        insight: the edit to apply.
        example: the insight's example item, where `needs_example`.
        seed: default: the run's seed plus one.
        functions_named: finds the addresses of the classifiers that are functions.

    Raises:
        InvalidRequest: the words cannot be read from the example.
    """
    if not needs_example(insight):
        chosen = Intervention(removed=insight.removed, added=insight.added)
    elif example is None or example.result is None or example.result.edited_caption is None:
        raise InvalidRequest(
            f"the insight leaves words open, and its example {insight.example_item!r} has no edited caption"
        )
    else:
        chosen = _change(example.result.caption, example.result.edited_caption)
    request = summary.config["request"]
    functions = functions_named(request["classifiers"])
    return StressTestCreate.model_validate(
        {name: request[name] for name in _KEPT if name in request}
        | {
            "interventions": [chosen.model_dump()],
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
            **({"functions": functions} if functions else {}),
            "seed": (summary.seed + 1) % _SEEDS if seed is None else seed,
        }
    )


def _change(caption: str, edited: str) -> Intervention:
    """Return the one phrase in which two captions differ.

    A single added word is anchored to the word that follows it; more added words are appended.
    """
    old, new = words(caption), words(edited)
    before, after = [word.key for word in old], [word.key for word in new]
    first = _same(before, after)
    last = _same(before[first:][::-1], after[first:][::-1])
    removed, added = old[first : len(old) - last], new[first : len(new) - last]
    unchanged = {word.key for word in removed} & {word.key for word in added}
    if len(unchanged) > _MOST_UNCHANGED:
        raise InvalidRequest(
            f"the example changes {caption!r} to {edited!r} in several places: choose one change and pass it "
            "as an intervention"
        )
    if not removed and len(added) == 1 and last:
        removed, added = old[first : first + 1], new[first : first + 2]
    return Intervention(
        removed=caption[removed[0].start : removed[-1].end].lower() if removed else "",
        added=edited[added[0].start : added[-1].end].lower() if added else "",
    )


def _same(one: list[str], other: list[str]) -> int:
    """Count the words before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
