"""Applying one finding's edit to a whole dataset (LANCE, fig. 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.caption_diff import words

_KEPT = (
    "dataset",
    "classifiers",
    "function_specs",
    "task",
    "preset",
    "selection",
    "strength",
    "thresholds",
    "exclude",
    "outside_suite",
    "preservation",
    "refused_faults",
    "judges",
    "region",
)
"""What the new run takes from the first; it uses every image, whatever the first run's limit."""

_KEPT_OF_OPERATIONS: tuple[str, ...] = (
    "dataset",
    "classifiers",
    "function_specs",
    "label_map",
    "task",
    "exclude",
)

_SEEDS = 2**63
_GAP = "…"
_MOST_UNCHANGED = 4
"""Unchanged words between changed ones that may still belong to one phrase."""


def told_change(finding: Finding) -> Intervention | None:
    """The words that a finding, or else most of its images, changed; None where an example must show them.

    Raises:
        InvalidRequest: it is about two conditions together, which no one change brings in.
    """
    if finding.conjunction:
        both = " and ".join(repr(each.words) for each in finding.conjunction)
        raise InvalidRequest(
            f"finding {finding.number} is about {both} together, not about one change; apply a finding that "
            "names a change"
        )
    removed, added = finding.removed, finding.added
    named = next((each for each in finding.wordings if each.named), None)
    if not (removed and added) and named is not None:
        # A finding may leave a side open, a wording does not.
        removed, added = named.removed, named.added
    elif not added:
        return None
    # Where added words go, only a caption shows.
    if not removed or _GAP in removed + added:
        return None
    return Intervention(removed=removed, added=added)


def example_change(finding: Finding, example: Item) -> Intervention:
    """The change of words that one of a finding's edits made.

    Raises:
        InvalidRequest: the words cannot be read from the edit.
    """
    if example.result is None or example.result.edited_caption is None:
        raise InvalidRequest(
            f"finding {finding.number} leaves words open, and its example {example.id!r} has no edited "
            "caption"
        )
    return _change(example.result.caption, example.result.edited_caption)


def application_request(
    run_id: str,
    request: Mapping[str, Any],
    change: Intervention | Finding,
    seed: int | None,
    functions_named: Callable[[Sequence[str]], dict[str, str]] = lambda names: {},
    classes: Sequence[str] = (),
) -> StressTestCreate:
    """Build the request for a stress test that makes this change alone.

    Args:
        run_id: the run that has the finding.
        request: its request.
        change: the change to make, or a finding of an operation, which is carried out at all levels of the
            run.
        seed: default: the run's seed plus one.
        functions_named: finds the addresses of the classifiers that are functions.
        classes: those of the dataset, for a finding of an operation: of one class, the others are not
            changed; of all, what the run had excluded stays so where the dataset has the class.

    Raises:
        InvalidRequest: the finding's class is none of them, or it is of pairs that were given.
    """
    functions = functions_named(request["classifiers"])
    made: dict[str, Any]
    if isinstance(change, Finding):
        kept = _KEPT_OF_OPERATIONS
        own = request["transforms"]
        if own.get("pairs"):
            raise InvalidRequest(
                f"finding {change.number} is of given pairs, which cannot be made of other images here; give "
                "pairs of those, and test them"
            )
        excluded = (
            _others_excluded(change, classes)
            if change.object_class
            else _still_excluded(change, own.get("excluded") or {}, classes)
        )
        made = {"transforms": {**own, "operations": [change.edit_type], "excluded": excluded}}
    else:
        kept = _KEPT
        made = {"interventions": [change.model_dump()]}
    return checked(
        StressTestCreate,
        {name: request[name] for name in kept if name in request}
        | made
        # Of a run that edits captions too, what the finding is about alone.
        | {"max_edits_per_image": 0, "lance_r_edits_per_image": 0}
        | ({"functions": functions} if functions else {})
        | {"applied_from": run_id, "seed": (request["seed"] + 1) % _SEEDS if seed is None else seed},
    )


def _others_excluded(finding: Finding, classes: Sequence[str]) -> dict[str, list[str]]:
    # Their images stay in the run: they may give the class its backgrounds.
    if finding.object_class not in classes:
        raise InvalidRequest(
            f"finding {finding.number} is of the class {finding.object_class!r}, which the dataset has not; "
            "name a dataset that has it"
        )
    return {name: [finding.edit_type] for name in classes if name != finding.object_class}


def _still_excluded(
    finding: Finding, excluded: Mapping[str, Sequence[str]], classes: Sequence[str]
) -> dict[str, list[str]]:
    operation = finding.edit_type
    return {name: [operation] for name in excluded if operation in excluded[name] and name in classes}


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
