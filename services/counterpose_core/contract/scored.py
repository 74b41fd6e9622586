"""What a task makes of one model's answer to one image: all that statistics, verdicts and pages see of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, JsonValue, model_validator

from counterpose_core.contract.base import ResponseBody

_FIRST, _SECOND = 1, 5
"""The ranks of the two headline figures of runs that were recorded before there were tasks."""


class Scored(ResponseBody):
    """What one model answers to one image, scored by the run's task against what the image shows."""

    score: float
    """How much of the answer is for the truth, in [0, 1]; of a classification, the probability of the true
    class."""
    hits: tuple[bool, bool]
    """The task's two headline figures: whether the answer is right, and whether it is by the task's more
    lenient rule; of a classification, whether a right class is the first, or one of the first five."""
    shown: list[tuple[str, float]]
    """What the model says, best first, each with its share in [0, 1]; of a classification, the five most
    probable classes."""
    raw: dict[str, JsonValue] = Field(default={}, exclude_if=lambda raw: not raw)
    """What only the task itself reads again; of a classification, the `rank` of the true class, from 1."""

    @model_validator(mode="before")
    @classmethod
    def _as_recorded(cls, document: Any) -> Any:
        return scored_document(document) if isinstance(document, Mapping) else document

    @property
    def right(self) -> bool:
        """Whether the answer is right."""
        return self.hits[0]

    @property
    def answer(self) -> str:
        """The model's answer in words; empty where there is none."""
        return self.shown[0][0] if self.shown else ""

    @property
    def share(self) -> float:
        """The share of the model's answer, in [0, 1]; the score where no answer is shown."""
        return self.shown[0][1] if self.shown else self.score


_FORMER: Final = "p_true"


def scored_document(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recorded answer in today's form: runs of before knew probabilities and ranks alone."""
    if _FORMER not in document:
        return document
    rank = document["rank_true"]
    return {
        "score": document[_FORMER],
        "hits": (rank <= _FIRST, rank <= _SECOND),
        "shown": document["top"],
        "raw": {"rank": rank},
    }
