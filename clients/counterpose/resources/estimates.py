"""What a run would take and could show, asked before it is created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from counterpose._calls import Call, reading
from counterpose._python_function.model import AnyClassifier
from counterpose.resources.runs import H, RunVerbs
from counterpose_core.contract.base import RequestBody
from counterpose_core.errors import InvalidRequest

E = TypeVar("E")


class EstimatedVerbs(RunVerbs[H], Generic[H, E]):
    """Verbs of a kind of run that is estimated; ``E`` is the estimate, or a coroutine of it."""

    def _estimate(
        self,
        request: type[RequestBody],
        answer: type[BaseModel],
        classifiers: Sequence[AnyClassifier],
        settings: Mapping[str, Any],
    ) -> E:
        """Ask ``POST /v1/<kind>s:estimate``; no classifier is called, only their number matters."""
        names = [f"model-{number}" for number, _ in enumerate(classifiers or (None,), 1)]
        try:
            body = request.model_validate({"seed": 0} | dict(settings) | {"classifiers": names})
        except ValidationError as error:
            raise InvalidRequest(f"no such {self._calls.kind.replace('-', ' ')}: {error}") from error
        path = f"{self._calls.root}:estimate"
        estimated: E = self._send(Call(method="POST", path=path, body=body, parse=reading(answer)))
        return estimated
