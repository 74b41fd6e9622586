"""The status of a run as its pollers get it: one look at its row, and the text of an unchanged run again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.blobs import digest
from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_RUN_STATES

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger
    from counterpose_gateway.ledger.runs.status import Glance

KEPT_BYTES = 16_000_000
"""Memory of the texts of the runs that were asked for last: of some four thousand, at 2 kB and what is around
each."""

AROUND_BYTES = 1_500
"""What a text takes in memory beside its own bytes: the columns of its row, tag and places in tables."""

_NO_CONFIG = b'"resolved_config":{}'


@dataclass(frozen=True)
class StatusText:
    """A run as JSON, with its ETag; ``config`` is where the part of it is that never changes."""

    kind: str
    state: str
    content: bytes
    tag: str
    config: slice

    @property
    def has_ended(self) -> bool:
        """Whether the run is in a final state."""
        return self.state in FINAL_RUN_STATES


class RunStatus:
    """Reads the status of runs; every answer is as new as the last commit before it was asked for."""

    def __init__(self, ledger: Ledger, *, kept_bytes: int = KEPT_BYTES, texts: _Texts | None = None) -> None:
        self._ledger = ledger
        self._texts = _Texts(kept_bytes) if texts is None else texts

    def of(self, ledger: Ledger) -> RunStatus:
        """Return the same of the runs that a tenant's ledger shows; all share the kept texts.

        A text is given only for a row that the tenant's own look has found.
        """
        return RunStatus(ledger, texts=self._texts)

    def clear(self) -> None:
        """Forget all texts."""
        self._texts.clear()

    async def read(self, run_id: str, kind: str | None = None) -> StatusText:
        """Return the run as it is now.

        Raises:
            NotFound: the run does not exist, or it is not of the requested ``kind``.
        """
        glance = await self._glance(run_id)
        text = None if glance is None else self._text_of(run_id, glance)
        if text is None:
            # The whole row once, for the configuration; or to say why there is no glance.
            text = _text(await asyncio.to_thread(self._ledger.runs.get, run_id))
            self._texts.keep(run_id, None, text)
        if kind is not None and text.kind != kind:
            raise NotFound(f"run {run_id!r} is a {text.kind}, not a {kind}, which alone has this")
        return text

    async def _glance(self, run_id: str) -> Glance | None:
        if self._ledger.status.glances_at_once:
            return self._ledger.status.glance(run_id)
        return await asyncio.to_thread(self._ledger.status.glance, run_id)

    def _text_of(self, run_id: str, glance: Glance) -> StatusText | None:
        kept = self._texts.of(run_id)
        if kept is None:
            return None
        known, text = kept
        if glance == known:
            return text
        try:
            text = _with_config(glance.run({}), text.content[text.config])
        except ValueError:
            # No ledger writes such a row: the long way says that it is damaged.
            return None
        self._texts.keep(run_id, glance, text)
        return text


class _Texts:
    """The texts of the runs that were asked for last, each with the glance that it was written of."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._size = 0
        self._texts: OrderedDict[str, tuple[Glance | None, StatusText]] = OrderedDict()

    def clear(self) -> None:
        """Forget all."""
        self._texts.clear()
        self._size = 0

    def of(self, run_id: str) -> tuple[Glance | None, StatusText] | None:
        """Return what is kept of a run."""
        if run_id not in self._texts:
            return None
        self._texts.move_to_end(run_id)
        return self._texts[run_id]

    def keep(self, run_id: str, glance: Glance | None, text: StatusText) -> None:
        """Keep a text, and forget those that were used longest ago."""
        _, before = self._texts.pop(run_id, (None, None))
        self._size += _size(text) - _size(before)
        self._texts[run_id] = (glance, text)
        while self._size > self._kept_bytes:
            _, (_, forgotten) = self._texts.popitem(last=False)
            self._size -= _size(forgotten)


def _size(text: StatusText | None) -> int:
    return 0 if text is None else len(text.content) + AROUND_BYTES


def _text(run: Run) -> StatusText:
    content = run.model_dump_json().encode()
    start, end = _around_config(run)
    return _status_text(run, content, slice(len(start), len(content) - len(end)))


def _with_config(run: Run, config: bytes) -> StatusText:
    """Write a run with the text of its configuration, which may be megabytes and is never written again."""
    start, end = _around_config(run)
    return _status_text(run, start + config + end, slice(len(start), len(start) + len(config)))


def _around_config(run: Run) -> tuple[bytes, bytes]:
    bare = run.model_copy(update={"resolved_config": {}}).model_dump_json().encode()
    # No other place has it: a quotation mark within a JSON string is escaped.
    start, name, end = bare.partition(_NO_CONFIG)
    return start + name[:-2], end


def _status_text(run: Run, content: bytes, config: slice) -> StatusText:
    # Half a digest is enough: a collision would only repeat an old answer.
    return StatusText(run.kind, run.state, content, f'"{digest(content)[:32]}"', config)
