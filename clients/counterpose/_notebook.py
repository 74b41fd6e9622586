"""What a notebook shows of a run and of findings: HTML without script, by the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Protocol

from counterpose._run_calls import FIRST_SCREEN, RunCalls
from counterpose._transport_protocol import Sender
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Run
from counterpose_core.errors import CounterposeError

FRAME_HEIGHT = 640
"""Pixels of the first screen; the frame scrolls, and a reader can pull it larger."""

# A notebook's own colours: a light and a dark one inherit.
_LINE = "1px solid rgba(128, 128, 128, .35)"
_CELL = f"text-align:left;vertical-align:top;padding:4px 12px 4px 0;border-top:{_LINE}"


def framed(report: str, run: Run) -> str:
    """Return a report in a frame, so that its styles and the notebook's do not meet."""
    return (
        f'<iframe sandbox="" title="run {escape(run.id)}" srcdoc="{escape(report)}" style="width:100%;'
        f'height:{FRAME_HEIGHT}px;resize:vertical;border:{_LINE};border-radius:8px"></iframe>'
    )


def progress(run: Run, items: str = "", share: float | None = None) -> str:
    """Return the state of a run that has no first screen yet, with a bar.

    ``items`` and ``share`` tell what has ended of all stages; default: of what is planned so far.
    """
    counts = run.request_counts
    ended = counts.total - counts.pending
    state = run.state.replace("_", " ")
    about = f" of {run.dataset}" if run.dataset else ""
    told = items or f"{ended} of {counts.total} items"
    said = f"{run.kind.replace('-', ' ')}{about}: {state}, {told}"
    filled = ended / max(counts.total, 1) if share is None else share
    return (
        f'<div><b>{escape(said)}</b><br><progress value="{filled:.4g}" max="1" '
        'style="width:min(100%, 480px)"></progress><br>'
        f"<code>{escape(run.id)}</code></div>"
    )


class Handle(Protocol):
    """What a notebook shows of a run that is followed by blocking calls."""

    run: Run
    _sender: Sender
    _calls: RunCalls[Any, Any]

    @property
    def ended(self) -> bool:
        """Whether the run had ended when it was last fetched."""

    def refresh(self) -> Handle:
        """Fetch the run's current state."""


def first_screen(handle: Handle) -> str:
    """Return the first screen of the report; of a run that is going, how far it is."""
    try:
        if not handle.refresh().ended:
            return progress(handle.run)
        call = handle._calls.report(handle.run.id, FIRST_SCREEN)
        return framed(handle._sender.send(call), handle.run)
    except CounterposeError:
        # A notebook shows what is known: an error would hide the value of the cell.
        return progress(handle.run)


class AsyncHandle(Protocol):
    """What a notebook shows of a run that is followed by awaitable calls."""

    run: Run


def async_first_screen(handle: AsyncHandle) -> str:
    """Return how far the run was when it was last fetched: a notebook does not wait for a value's HTML."""
    return progress(handle.run)


class Findings(list[Finding]):
    """The findings of a stress test, the surest first; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no findings</p>"
        header = "".join(f'<th style="{_CELL};border-top:0">{name}</th>' for name in _COLUMNS)
        return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(_rows(self))}</tbody></table>"


_COLUMNS = ("#", "verdict", "finding", "model", "wrong answers", "loss of the score")


def _rows(findings: Iterable[Finding]) -> Iterator[str]:
    for found in findings:
        loss = "not tested" if found.confirmed is None else str(found.confirmed.loss)
        cells = (
            str(found.number),
            found.state.replace("-", " "),
            found.sentence,
            found.classifier,
            f"{found.flipped} of {found.of}",
            loss,
        )
        written = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells)
        yield f"<tr>{written}</tr>"
