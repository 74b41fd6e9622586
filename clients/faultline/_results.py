"""Downloading a run's results: what was read, where to continue, whether all of it arrived."""

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
"""Streams in a row that may break before their first item before the download fails."""

# Items start with their id, so no line is parsed twice to tell them from the trailer.
_TRAILER = b'{"lines"'


class Results(Generic[AnyItem]):
    """One reader's position in a run's results; the caller opens, reads and closes the streams.

    A broken stream continues after the last item. Each stream's lines are compared with its checksum.
    """

    def __init__(self, calls: RunCalls[AnyItem, Any], run_id: str) -> None:
        self._calls = calls
        self._id = run_id
        self._next = self._lines = self._fruitless = 0
        self._sum = hashlib.sha256()
        self._rest = b""
        self._whole = self._wrong = False

    def whole(self) -> bool:
        """Whether the trailer arrived and matches what was read."""
        return self._whole

    def call(self) -> Call[None]:
        """Return the call that opens a stream after the last item read."""
        self._sum, self._lines, self._rest = hashlib.sha256(), 0, b""
        return self._calls.results(self._id, self._next)

    def poll_call(self) -> Call[Run]:
        """Return the call that polls the run, for as long as a gateway may take to return."""
        return self._calls.wait(self._id, 0.0, patient=True)

    @contextmanager
    def one_stream(self) -> Iterator[None]:
        """Read one stream inside; a broken stream ends quietly, unless several brought nothing."""
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
        """Yield the items that this piece of the stream completes.

        Raises:
            BadBackendOutput: a line is not an item, or the trailer does not match the lines.
        """
        # Not httpx's lines, which also end at characters that a caption may hold, such as U+2028.
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
            raise BadBackendOutput(
                f"a line of results is not a {self._calls.item.__name__}: {error}"
            ) from error
        self._sum.update(line + b"\n")
        self._lines += 1
        self._next = item.ordinal + 1
        return item

    def _check(self, trailer: bytes) -> None:
        told = json.loads(trailer)
        if (told["lines"], told["sha256"]) != (self._lines, self._sum.hexdigest()):
            self._wrong = True
            raise BadBackendOutput(f"the results of run {self._id} do not match their checksum")
        self._whole = True
