"""What the gate makes of every planted fault, and whether bugs are found all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.text.edit_instruction import TEMPLATES
from counterpose_core.types import Estimate
from evaluation.served_editor.oracle import Answer, question_key
from evaluation.served_editor.plan import FAULTY
from evaluation.validity.aims import DISCOVERY, at_least, at_most
from evaluation.validity.detection import Trial, chances, detection
from evaluation.validity.report import BugReport, PresetReport

AIM, LEVEL = 0.95, 0.05
PRESERVATION = "gate-preservation"
EDIT = "edit"
"""A random edit may repeat another one's question, so it would count twice."""
TOLD = ("shift", "zoom", "reshape", "ignored")
"""Groups that a run can tell of an edit, whose region nobody gave."""
NAMED: Mapping[str, frozenset[str]] = {
    "shift": frozenset({"moved"}),
    "zoom": frozenset({"moved", "scaled"}),
    "reshape": frozenset({"reshaped"}),
    "recolour": frozenset({"drifted", "leaked"}),
    "leak": frozenset({"leaked"}),
    "over-edit": frozenset({"leaked"}),
}
"""What a fault of a control should be called."""

Judged = tuple[str, str, list[str] | None]
"""Group and fault of an edit, and what the limits say of it; None where no part of the image was to stay."""


@dataclass(frozen=True)
class Pair:
    """An item and what the server did to its image."""

    item: Item
    answer: Answer

    @property
    def faults(self) -> list[str] | None:
        """What the product names; None where it did not measure the image."""
        told = self.item.result and self.item.result.preservation
        return None if not told else list(told.faults)

    @property
    def is_refused(self) -> bool:
        """Whether the gate of preservation dropped it."""
        return self.item.reason == PRESERVATION

    @property
    def is_faulty(self) -> bool:
        """Whether its image is not what was asked for."""
        return self.answer.group in FAULTY


def pairs_of(items: Iterable[Item], answers: Mapping[str, Answer]) -> Iterator[Pair]:
    """Join items with what the server did for them; items that the server made no image of are left out."""
    for item in items:
        served = item.result and item.result.served
        if served and item.result and served.template:
            result, template = item.result, TEMPLATES["both-captions"]
            prompt = template.instruction(result.caption, result.edited_caption or result.caption)
            yield Pair(item, answers[question_key(item.source_image, prompt, served.seed)])


def gate_figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How right the gate is about edits whose change is seen: of those that reached it."""
    edits = [pair for pair in pairs if pair.item.kind == EDIT]
    seen = [pair for pair in edits if pair.answer.seen]
    reached = [pair for pair in seen if pair.faults is not None]
    told = [pair for pair in reached if not pair.is_faulty or pair.answer.group in TOLD]

    def precision(among: Sequence[Pair]) -> dict[str, Any]:
        return rate(not pair.is_faulty for pair in among if not pair.is_refused)

    faultless = [pair for pair in reached if not pair.is_faulty]
    reasons = Counter(fault for pair in faultless if pair.is_refused for fault in pair.faults or ())
    return {
        "edits answered": len(edits),
        "left out: the change is not seen": rate(not pair.answer.seen for pair in edits),
        "left out: another filter dropped it before": rate(pair.faults is None for pair in seen),
        "kept without a fault": precision(reached),
        "kept without a fault, of faults that can be told": precision(told),
        "kept without a fault, if nothing were refused": rate(not pair.is_faulty for pair in reached),
        "refused with a fault": rate(pair.is_faulty for pair in reached if pair.is_refused),
        "false refusals": rate(pair.is_refused for pair in faultless),
        "false refusals by fault": dict(reasons),
        "false refusals by what was asked": {
            attribute: rate(pair.is_refused for pair in faultless if attribute in pair.answer.changes)
            for attribute in sorted({name for pair in faultless for name in pair.answer.changes})
        },
        "kept in the end, without a fault": rate(
            not pair.is_faulty for pair in seen if pair.item.state == "done"
        ),
    }


def found_figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many planted faults of edits are refused, by group and by kind and size."""
    edits = [pair for pair in pairs if pair.item.kind == EDIT and pair.answer.seen]
    reached = [pair for pair in edits if pair.faults is not None]
    return {
        group: {
            "refused for preservation": rate(pair.is_refused for pair in _of(reached, group)),
            "dropped by any filter of images": rate(pair.item.state != "done" for pair in _of(edits, group)),
            **_by_kind(_of(reached, group), lambda pair: pair.is_refused),
        }
        for group in FAULTY
    }


def control_figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many planted faults of controls are named, of which nothing was to change."""
    controls = [pair for pair in pairs if pair.item.kind == "reconstruction" and pair.faults is not None]

    def named(pair: Pair) -> bool:
        return bool(NAMED[pair.answer.group] & set(pair.faults or ()))

    honest = [pair for pair in controls if not pair.is_faulty]
    return {
        "without a fault, and called faulty": rate(bool(pair.faults) for pair in honest),
        **{
            group: {
                "found": rate(bool(pair.faults) for pair in _of(controls, group)),
                "named": rate(map(named, _of(controls, group))),
                **_by_kind(_of(controls, group), lambda pair: bool(pair.faults)),
            }
            for group in NAMED
        },
    }


def region_figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """What the same limits say of edits by the exact region of the change."""
    left = rate(names is None for *_, names in judged)
    return {"left out: all of the image was to change": left, **limits_figures(judged)}


def limits_figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """How many edits the limits call faulty, by what was planted."""
    found = dict[str, Any]()
    for group in dict.fromkeys(group for group, *_ in judged):
        own = [(fault, bool(names)) for each, fault, names in judged if each == group and names is not None]
        found[group] = {
            "found": rate(hit for _, hit in own),
            "by kind": {
                kind: rate(hit for fault, hit in own if fault == kind)
                for kind in sorted({fault for fault, _ in own})
            },
        }
    return found


def outcome_figures(items: Sequence[Item], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """What became of all items, of refusals by policy, of late answers and of those in another size."""
    groups = Counter(answer.group for answer in answers.values())
    sized = [pair for pair in pairs_of(items, answers) if pair.answer.group == "another size"]
    late = [pair for pair in pairs_of(items, answers) if pair.answer.group == "late"]
    return {
        "items": dict(Counter(f"{item.kind}: {item.reason or item.code or item.state}" for item in items)),
        "answers by group": dict(groups),
        "items that ended with an error": rate(item.state == "failed" for item in items),
        "questions refused by policy": groups["refuses"],
        "items filtered as refused by policy": sum(item.reason == "policy" for item in items),
        "another size, recorded as drift": rate(
            bool(pair.item.result and pair.item.result.served and pair.item.result.served.drift_from)
            for pair in sized
        ),
        "late questions": groups["late"],
        "items with an image that came late at first": len(late),
    }


def bug_figures(
    bugs: Sequence[BugReport], trial: Trial, quick: PresetReport, generator: np.random.Generator
) -> dict[str, Any]:
    """Planted bugs found and false alarms, beside those of ``quick`` on the same sources and classifiers."""
    planted = chances(bugs, [trial.seed])
    controls = [name for name in trial.truths if name.startswith("local:control")]
    detected, found = detection(planted, [trial], controls, generator)
    made = _bugs(
        [one.name for one in planted], {one.name for one in found}, detected.findings, list(trial.truths)
    )
    made["quick"] = {"sources": quick.setting.sources} | _bugs(
        [name for name in quick.planted_bugs if name.partition("/")[0] in trial.truths],
        set(quick.planted_bugs_found),
        [one for one in quick.detection.findings if one.classifier in trial.truths],
        list(trial.truths),
    )
    return made


def _bugs(
    planted: Sequence[str], found: set[str], findings: Sequence[Any], tested: Sequence[str]
) -> dict[str, Any]:
    alarmed = {one.classifier for one in findings if one.verdict == "false-alarm"}
    return {
        "planted bugs found": rate(name in found for name in planted),
        "missed": [name for name in planted if name not in found],
        "significant insights": dict(Counter(one.verdict for one in findings)),
        "false alarms": rate(one.verdict == "false-alarm" for one in findings),
        "classifiers with a false alarm": rate(name in alarmed for name in tested),
        "alarmed": sorted(alarmed),
    }


def aims(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the targets, and whether each was reached."""
    faulty = figures["faulty"]
    gate, edits, controls = faulty["gate"], faulty["planted in edits"], faulty["planted in controls"]
    regions = faulty["by the exact region"]
    refused = "refused for preservation"
    wanted = [
        at_least("edits kept without a fault", _estimate(gate["kept without a fault"]), AIM),
        at_least(
            "the same, of faults that can be told without a region",
            _estimate(gate["kept without a fault, of faults that can be told"]),
            AIM,
        ),
        at_most("right edits refused", _estimate(gate["false refusals"]), LEVEL),
        at_least("shifts of edits refused", _estimate(edits["shift"][refused]), AIM),
        at_least("shifts of controls found", _estimate(controls["shift"]["found"]), AIM),
        at_least("leaks of edits refused", _estimate(edits["leak"][refused]), AIM),
        at_least("leaks of controls found", _estimate(controls["leak"]["found"]), AIM),
        at_least("leaks of edits, by the exact region", _estimate(regions["leak"]["found"]), AIM),
    ]
    for name in figures:
        bugs = figures[name]["bugs"]
        found, quick = _estimate(bugs["planted bugs found"]), bugs["quick"]["planted bugs found"]["estimate"]
        wanted.append(at_least(f"planted bugs found, {name} server, as by quick", found, quick))
        alarms = _estimate(bugs["false alarms"])
        wanted.append(at_most(f"significant insights that are false, {name} server", alarms, DISCOVERY))
    return [aim.model_dump() for aim in wanted]


def _estimate(told: Mapping[str, Any]) -> Estimate:
    return Estimate.model_validate(told)


def rate(hits: Iterable[bool]) -> dict[str, Any]:
    """Return a share with its interval and n."""
    every = list(hits)
    told = proportion(sum(every), len(every)).model_dump()
    return {name: value if value is None or name == "n" else round(value, 4) for name, value in told.items()}


def _of(pairs: Sequence[Pair], group: str) -> list[Pair]:
    return [pair for pair in pairs if pair.answer.group == group]


def _by_kind(pairs: Sequence[Pair], hit: Callable[[Pair], bool]) -> dict[str, Any]:
    kinds = sorted({pair.answer.fault for pair in pairs})
    return {
        "by kind": {kind: rate(hit(pair) for pair in pairs if pair.answer.fault == kind) for kind in kinds}
    }
