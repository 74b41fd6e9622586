"""From recorded items to columns, one item at a time."""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from faultline_core.contract.confirmation import Instruction
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.stress_test.failure_modes import Answer, KeptEdit, modes_of
from faultline_core.stress_test.insights import phrase
from faultline_core.types import Cost
from faultline_gateway.columns import Codes, FeatureRows, GrowingAnswers, Ids, Vectors
from faultline_gateway.columns.answers import best_class
from faultline_gateway.methods.stress_test.columns.columns import ItemColumns, Sums
from faultline_gateway.methods.stress_test.features import CLIP, LANGUAGE_MODEL
from faultline_gateway.runs.context import RunLedger
from faultline_gateway.runs.recorded import recorded_config
from faultline_gateway.runs.recorded_items import RecordedItem

_INTEGERS = (
    "kind", "state", "stage", "slot", "source", "unit", "label", "edit_type", "reason", "code", "removed",
    "added", "modes", "tokens", "language_model", "clip", "tried", "instruction",
)  # fmt: skip
_SHORT = frozenset(("kind", "state", "stage", "edit_type", "modes", "clip", "language_model", "tried"))
"""Numbers of few values take two bytes."""

_NAMED = (
    "kind", "state", "source", "unit", "label", "edit_type", "reason", "code", "words", "language_model",
    "clip", "instruction", "best",
)  # fmt: skip
_VECTORS = ("image", "source", "removed", "added")
_NOTHING: Mapping[str, Any] = {}
_NAN = float("nan")


def read_columns(run: Run, ledger: RunLedger) -> ItemColumns:
    """Read the columns of a run from the ledger; memory grows by some hundred bytes an item."""
    config = recorded_config(StressTestConfig, run)
    groups = {} if config.grouping is None else config.grouping.groups
    reading = _Reading(groups)
    for item in ledger.recorded_items(run.id):
        reading.add(item)
    return reading.columns()


def columns_of(
    items: Iterable[Item] | Iterable[RecordedItem], groups: Mapping[str, str] | None = None
) -> ItemColumns:
    """Make columns of items, one by one.

    ``groups`` names the group of sources that are alike, such as frames of one video; a source that is not in
    it is a unit of its own.
    """
    reading = _Reading(groups or {})
    for item in items:
        reading.add(item if isinstance(item, RecordedItem) else RecordedItem.of(item))
    return reading.columns()


class _Reading:
    def __init__(self, groups: Mapping[str, str]) -> None:
        self._groups = groups
        self._ids = Ids()
        self._numbers = {name: array("h" if name in _SHORT else "i") for name in _INTEGERS}
        self._names = {name: Codes() for name in _NAMED}
        if not groups:
            # Every source is a unit of its own, of the same number.
            self._names["unit"] = self._names["source"]
        self._fit, self._nats = array("d"), array("d")
        self._with_result = array("b")
        self._answered: dict[str, GrowingAnswers] = {}
        self._vectors = {name: (array("h"), array("i")) for name in _VECTORS}
        self._features = FeatureRows()
        self._costs: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._unanswered: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._predicted = 0

    def add(self, item: RecordedItem) -> None:
        """Add the next item."""
        names, result = self._names, item.result
        kept = item.state == "done" and result is not None
        known = {
            "kind": names["kind"].add(item.kind),
            "state": names["state"].add(item.state),
            "stage": item.stage,
            "slot": item.slot,
            "source": names["source"].add(item.item_group),
            "unit": names["unit"].add(self._groups.get(item.item_group, item.item_group)),
            "label": names["label"].add(item.label),
            "edit_type": names["edit_type"].add(item.edit_type),
            "reason": names["reason"].add(item.reason),
            "code": names["code"].add(item.code),
            "instruction": names["instruction"].add(_json(item.instruction)),
            **self._of_result(item, result or _NOTHING, kept),
        }
        for name, numbers in self._numbers.items():
            numbers.append(known[name])
        self._ids.add(item.id)
        self._with_result.append(result is not None)
        self._add_vectors(item, (result or _NOTHING) if kept else _NOTHING)
        if result is not None:
            self._sum_up(result, kept)

    def _of_result(self, item: RecordedItem, result: Mapping[str, Any], kept: bool) -> dict[str, int]:
        words, models = self._names["words"], result.get("models") or _NOTHING
        likelihood = (result.get("likelihood") if kept else None) or _NOTHING
        self._nats.append(likelihood.get("nats", _NAN))
        scores = (result.get("scores") if kept else None) or _NOTHING
        self._fit.append(scores["text_edited"] - scores["text_original"] if scores else _NAN)
        caption, edited = result.get("caption", ""), result.get("edited_caption") or ""
        if kept:
            self._add_answers(result)
        return {
            "removed": words.add(phrase(caption, _runs(result.get("removed", ())))),
            "added": words.add(phrase(edited, _runs(result.get("added", ())))),
            "modes": self._modes(item, result) if kept else 0,
            "tokens": likelihood.get("tokens", 0),
            "language_model": self._names["language_model"].add(models.get(LANGUAGE_MODEL, "")),
            "clip": self._names["clip"].add(models.get(CLIP, "")),
            "tried": len(result.get("self_replace_tried", ())),
        }

    def _add_answers(self, result: Mapping[str, Any]) -> None:
        before, after = result.get("original_predictions", _NOTHING), result.get("predictions", _NOTHING)
        for name in dict.fromkeys((*after, *before)):
            answered = self._answered.get(name)
            if answered is None:
                answered = self._answered[name] = GrowingAnswers()
            answered.fill(len(self._ids))
            best = self._names["best"]
            answered.add(before.get(name), after.get(name), best)

    def _modes(self, item: RecordedItem, result: Mapping[str, Any]) -> int:
        if item.kind != "edit" or item.edit_type is None:
            return 0
        before = result.get("original_predictions", _NOTHING)
        edit = KeptEdit(
            item=item.id,
            object_class=item.label,
            edit_type=item.edit_type,
            caption=result["caption"],
            edited_caption=result.get("edited_caption") or result["caption"],
            removed=_indices(result.get("removed", ())),
            added=_indices(result.get("added", ())),
            fit=None,
            answers={
                name: Answer(
                    before[name]["p_true"], after["p_true"], best_class(before[name]), best_class(after)
                )
                for name, after in result.get("predictions", _NOTHING).items()
                if name in before
            },
        )
        return modes_of(edit)

    def _add_vectors(self, item: RecordedItem, result: Mapping[str, Any]) -> None:
        words = result.get("word_features") or _NOTHING
        documents = (
            result.get("image_features"), result.get("source_features"), words.get("removed"),
            words.get("added"),
        )  # fmt: skip
        for name, document in zip(_VECTORS, documents, strict=True):
            widths, rows = self._vectors[name]
            width, row = self._features.add(document)
            widths.append(width)
            rows.append(row)

    def _sum_up(self, result: Mapping[str, Any], kept: bool) -> None:
        self._costs.update(result.get("cost") or _NOTHING)
        for service, seconds in (result.get("service_seconds") or _NOTHING).items():
            self._seconds[service] = self._seconds.get(service, 0) + seconds
        if kept:
            self._predicted += bool(result.get("predictions"))
            for classifier, detail in (result.get("unanswered") or _NOTHING).items():
                self._unanswered[classifier][detail] += 1

    def columns(self) -> ItemColumns:
        """Return the columns of all items so far."""
        length = len(self._ids)
        for answered in self._answered.values():
            answered.fill(length)
        words = self._names["words"]
        return ItemColumns(
            ids=self._ids,
            **{name: np.frombuffer(numbers, numbers.typecode) for name, numbers in self._numbers.items()},
            fit=np.frombuffer(self._fit),
            nats=np.frombuffer(self._nats),
            with_result=np.frombuffer(self._with_result, dtype=np.bool_),
            names={**self._names, "removed": words, "added": words},
            instructions=[
                Instruction.model_validate_json(name) for name in self._names["instruction"].names
            ],
            answers={
                name: each.columns()
                for name, each in self._answered.items()
            },
            vectors={
                name: Vectors(np.frombuffer(widths, np.int16), np.frombuffer(rows, np.int32))
                for name, (widths, rows) in self._vectors.items()
            },
            features=self._features,
            sums=Sums(
                Cost.model_validate(self._costs), dict(sorted(self._seconds.items())), self._unanswered,
                self._predicted,
            ),
        )  # fmt: skip


def _answer(before: Mapping[str, Any], after: Mapping[str, Any]) -> Answer:
    return Answer(before["p_true"], after["p_true"], best_class(before), best_class(after))


def _json(document: Mapping[str, Any] | None) -> str | None:
    return None if document is None else json.dumps(document, sort_keys=True)


def _runs(spans: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    return [(span["start"], len(span["words"])) for span in spans]


def _indices(spans: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    return frozenset(at for start, number in _runs(spans) for at in range(start, start + number))
