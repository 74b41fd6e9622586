"""A run's results as they come down: what was read, where to go on, whether all of it came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

from pydantic import ValidationError

from faultline._calls import Call
from faultline._run_calls import AnyItem, RunCalls
from faultline_core.contract.runs import Run
from faultline_core.errors import BackendError, BadBackendOutput

_FRUITLESS = 3
"""Streams in a row that break before their first item, after which a download is given up."""

# Items have an id and begin with it, so no line is parsed twice.
_TRAILER = b'{"lines"'


class Results(Generic[AnyItem]):
    """One reader's way through the results of a run; streams are opened, read and closed by its caller.

    A stream that breaks is taken up after the last item, and the checksum of each is held against its lines.
    """

    def __init__(self, calls: RunCalls[AnyItem, Any], run_id: str) -> None:
        self._calls = calls
        self._id = run_id
        self._next = self._lines = self._fruitless = 0
        self._sum = hashlib.sha256()
        self._rest = b""
        self._whole = self._wrong = False

    def whole(self) -> bool:
        """Whether the trailer came and agreed with what was read."""
        return self._whole

    def call(self) -> Call[None]:
        """Open a stream after the last item read."""
        self._sum, self._lines, self._rest = hashlib.sha256(), 0, b""
        return self._calls.results(self._id, self._next)

    def poll_call(self) -> Call[Run]:
        """Look at the run, for as long as a gateway may take to come back."""
        return self._calls.wait(self._id, 0.0, patient=True)

    @contextmanager
    def one_stream(self) -> Iterator[None]:
        """Read one stream inside; that it breaks ends it, unless several have brought nothing."""
        before = self._next
        broken: BackendError = BadBackendOutput(f"the results of run {self._id} ended before their trailer")
        try:
            yield
        except BackendError as error:
            if self._wrong:
                raise
            broken = error
        if self._whole:
            return
        self._fruitless = 0 if self._next > before else self._fruitless + 1
        if self._fruitless == _FRUITLESS:
            raise broken

    def take(self, data: bytes) -> Iterator[AnyItem]:
        """Yield the items that are complete with this piece of the stream.

        Raises:
            BadBackendOutput: a line is no item, or the trailer tells of other lines than came.
        """
        # Not httpx's lines, which also end at what a caption may hold, such as U+2028.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_TRAILER):
                self._check(line)
            else:
                yield self._item(line)

    def _item(self, line: bytes) -> AnyItem:
        try:
            item = self._calls.item.model_validate_json(line)
        except ValidationError as error:
            raise BadBackendOutput(f"a line of results is no {self._calls.item.__name__}: {error}") from error
        self._sum.update(line + b"\n")
        self._lines += 1
        self._next = item.ordinal + 1
        return item

    def _check(self, trailer: bytes) -> None:
        told = json.loads(trailer)
        if (told["lines"], told["sha256"]) != (self._lines, self._sum.hexdigest()):
            self._wrong = True
            raise BadBackendOutput(f"the results of run {self._id} differ from their checksum")
        self._whole = True
