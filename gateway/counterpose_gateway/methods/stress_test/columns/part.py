"""From recorded items to a part of a run's columns, one item at a time."""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from counterpose_core.contract.editor_backends import CAPABILITIES
from counterpose_core.contract.editor_presets import UNTAGGED
from counterpose_core.contract.judges import VERDICTS
from counterpose_core.contract.preservation import FAULTS
from counterpose_core.contract.scored import scored_document
from counterpose_core.contract.suite_fit import MEASURES
from counterpose_core.statistics.coded import Ints
from counterpose_core.stress_test.failure_modes import Answer, KeptEdit, modes_of
from counterpose_core.stress_test.insights import phrase
from counterpose_core.types import JudgeName
from counterpose_gateway.methods.stress_test.screen.features import CLIP, LANGUAGE_MODEL
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.summaries.columns import NONE, Codes, GrowingAnswers, Part
from counterpose_gateway.summaries.columns.answers import answer_of
from counterpose_gateway.summaries.columns.features import GrowingFeatures
from counterpose_gateway.summaries.columns.parts import Column

_INTEGERS = (
    "kind", "state", "stage", "slot", "source", "label", "edit_type", "reason", "code", "removed", "added",
    "modes", "tokens", "language_model", "clip", "tried", "instruction", "outside", "drawn",
    "faults", "unrepeated", "verdicts",
)  # fmt: skip
_LONG = frozenset(
    ("slot", "source", "label", "reason", "code", "removed", "added", "tokens", "instruction", "drawn")
)
"""Numbers of many values take four bytes, others two."""

TABLES = {
    "kind": "kind", "state": "state", "source": "source", "label": "label", "edit_type": "edit_type",
    "reason": "reason", "code": "code", "removed": "words", "added": "words",
    "language_model": "language_model", "clip": "clip", "instruction": "instruction", "drawn": "drawn",
    "answer_before": "answer", "answer_after": "answer",
}  # fmt: skip
"""Kind of column → the table that has its strings; places are missing from few columns alone."""

WITH_REGION = 1 << 2 * len(FAULTS)
"""Of the column of faults: set where an edit's region was known."""

_VECTORS = ("image", "source", "removed", "added")
_NOTHING: Mapping[str, Any] = {}
_JUDGES, _BASE = get_args(JudgeName), len(VERDICTS) + 1
_NAN = float("nan")


def empty(kind: str) -> float:
    """Return what items have in a column of this kind that has nothing of them."""
    if kind in ("score_before", "score_after"):
        return _NAN
    return 0 if kind in ("hits_before", "hits_after") else NONE


def part_of(items: Iterable[RecordedItem], first: int) -> Part:
    """Return the part of items that begin at the place ``first`` of their run."""
    growing = _GrowingPart(first)
    for item in items:
        growing.add(item)
    return growing.part()


class _GrowingPart:
    """Columns of a part, one item after the other."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._run: str | None = None
        self._others: dict[str, str] = {}
        self._length = 0
        self._numbers = {name: array("i" if name in _LONG else "h") for name in _INTEGERS}
        self._names = {name: Codes() for name in dict.fromkeys(TABLES.values())}
        self._fit, self._nats = array("d"), array("d")
        self._with_result = array("b")
        self._answered: dict[str, GrowingAnswers] = {}
        self._vectors = {name: (array("h"), array("i")) for name in _VECTORS}
        self._features = GrowingFeatures()
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
            "label": names["label"].add(item.label),
            "edit_type": names["edit_type"].add(item.edit_type),
            "reason": names["reason"].add(item.reason),
            "code": names["code"].add(item.code),
            "instruction": names["instruction"].add(_json(item.instruction)),
            "drawn": names["drawn"].add(_draw_of(item, result) if kept and result else None),
            **self._of_result(item, result or _NOTHING, kept),
        }
        for name, numbers in self._numbers.items():
            numbers.append(known[name])
        self._add_id(item.id)
        self._with_result.append(result is not None)
        self._add_vectors(item, (result or _NOTHING) if kept else _NOTHING)
        if result is not None:
            self._sum_up(result, kept)

    def _add_id(self, name: str) -> None:
        run, _, place = name.rpartition(".")
        if self._run is None:
            self._run = run
        if run != self._run or place != str(self._first + self._length):
            self._others[str(self._length)] = name
        self._length += 1

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
            "tried": len(result.get("strengths_tried", ())),
            "outside": _outside(result.get("suite_fit") if kept else None),
            "faults": _faults(result.get("preservation") if kept else None, result.get("region")),
            "unrepeated": (result.get("served") or _NOTHING).get("seed_repeats") is False,
            "verdicts": _verdicts(result.get("judgements")),
        }

    def _add_answers(self, result: Mapping[str, Any]) -> None:
        before, after = result.get("original_predictions", _NOTHING), result.get("predictions", _NOTHING)
        for name in dict.fromkeys((*after, *before)):
            answered = self._answered.get(name)
            if answered is None:
                answered = self._answered[name] = GrowingAnswers()
            answered.fill(self._length)
            answered.add(before.get(name), after.get(name), self._names["answer"])

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
                name: _answer(before[name], after)
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
            width, row = self._features.add(name, document)
            widths.append(width)
            rows.append(row)

    def _sum_up(self, result: Mapping[str, Any], kept: bool) -> None:
        self._costs.update(result.get("cost") or _NOTHING)
        for service, seconds in (result.get("service_seconds") or _NOTHING).items():
            self._seconds[service] = self._seconds.get(service, 0) + seconds
        if kept:
            self._predicted += bool(result.get("predictions") or result.get("unanswered"))
            for classifier, detail in (result.get("unanswered") or _NOTHING).items():
                self._unanswered[classifier][detail] += 1

    def part(self) -> Part:
        """Return the part with all items so far."""
        for answered in self._answered.values():
            answered.fill(self._length)
        numbers: dict[str, Column] = {
            name: np.frombuffer(values, values.typecode) for name, values in self._numbers.items()
        }
        numbers |= {"fit": np.frombuffer(self._fit), "nats": np.frombuffer(self._nats)}
        numbers["with_result"] = np.frombuffer(self._with_result, dtype=np.bool_)
        for name, answers in self._answered.items():
            columns = vars(answers.columns())
            numbers |= {f"{kind}:{name}": column for kind, column in columns.items()}
        for name, (widths, rows) in self._vectors.items():
            numbers[f"width:{name}"] = np.frombuffer(widths, np.int16)
            numbers[f"row:{name}"] = np.frombuffer(rows, np.int32)
        tables = {name: codes.names for name, codes in self._names.items()}
        return Part(self._length, numbers, tables, self._totals(), self._features.blocks())

    def _totals(self) -> dict[str, Any]:
        return {
            "run": self._run or "",
            "other_ids": self._others,
            "cost": dict(self._costs),
            "service_seconds": self._seconds,
            "unanswered": {name: dict(counts) for name, counts in self._unanswered.items()},
            "predicted": self._predicted,
        }


def _outside(fit: Mapping[str, Any] | None) -> int:
    """The measures by which a source lies outside the suite, a bit each; `NONE` where they are not known."""
    return NONE if fit is None else sum(1 << MEASURES.index(name) for name in fit["outside"])


def _faults(record: Mapping[str, Any] | None, region: object) -> int:
    """The faults of an image, a bit each, above them those that cannot be told; `NONE` without a record.

    `WITH_REGION` is set besides where the image had a region.
    """
    if record is None:
        return NONE
    bits = [FAULTS.index(name) for name in record["faults"]]
    bits += [len(FAULTS) + FAULTS.index(name) for name in record["unmeasured"]]
    return sum(1 << bit for bit in bits) | (WITH_REGION if region else 0)


def _verdicts(judgements: Mapping[str, Any] | None) -> int:
    """What each judge says of an edit, a digit each, 0 where it was not asked; `NONE` if none was."""
    if not judgements:
        return NONE
    said = ((_JUDGES.index(name), each["verdict"]) for name, each in judgements.items())
    return sum((VERDICTS.index(verdict) + 1) * _BASE**place for place, verdict in said)


def verdict_of(verdicts: Ints, name: str) -> Ints:
    """Return the places in `VERDICTS` of what a judge says of edits; -1 where it was not asked."""
    return np.asarray(verdicts // _BASE ** _JUDGES.index(name) % _BASE - 1)


def _draw_of(item: RecordedItem, result: Mapping[str, Any]) -> str | None:
    """The image of a draw that no seed tells from others, else None."""
    if item.instruction is None or item.instruction.get("draw") is None:
        return None
    backend = (result.get("preset") or _NOTHING).get("backend", UNTAGGED)
    # Some servers take a seed, whatever their backend declares of all.
    seeded = CAPABILITIES[backend].seeded or (result.get("served") or _NOTHING).get("seed") is not None
    return None if seeded else result["image"]


def _answer(before: Mapping[str, Any], after: Mapping[str, Any]) -> Answer:
    before, after = scored_document(before), scored_document(after)
    said = answer_of(before), answer_of(after)
    return Answer(before["score"], after["score"], *said, before["hits"][0], after["hits"][0])


def _json(document: Mapping[str, Any] | None) -> str | None:
    # Without masks: each image has its own, and no figure asks for it.
    asked = {name: value for name, value in (document or _NOTHING).items() if name != "mask"}
    return json.dumps(asked, sort_keys=True) if asked else None


def _runs(spans: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    return [(span["start"], len(span["words"])) for span in spans]


def _indices(spans: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    return frozenset(at for start, number in _runs(spans) for at in range(start, start + number))
