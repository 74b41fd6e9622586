"""Go on with what killed processes have left half done: large runs are changed in many transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import select

from counterpose_core.errors import CounterposeError
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.runs.cancellations import cancel_rest
from counterpose_gateway.ledger.runs.deletions import delete_rest
from counterpose_gateway.ledger.runs.resumptions import resume_rest
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.pace import never

_RESTS = {"cancelling": cancel_rest, "resuming": resume_rest, "deleting": delete_rest}
"""What goes on with a run, by the state that it is left in."""

_logger = logging.getLogger(__name__)
_runs = schema.runs.c


class Interrupted(LedgerPart):
    """The part of the ledger that processes call when they start."""

    def go_on(self, stopped: Callable[[], bool] = never) -> None:
        """Go on with interrupted cancellations, resumptions and deletions, until ``stopped`` says so.

        Another process may be doing the same; each chunk is done by one of them. An error is logged: the next
        process that starts tries again.
        """
        try:
            with self._database.reading() as connection:
                query = select(_runs.id, _runs.state).where(_runs.state.in_(_RESTS))
                interrupted = connection.execute(query).all()
            for run_id, state in interrupted:
                _RESTS[state](self._database, self._clock, run_id, stopped)
        except CounterposeError as error:
            _logger.warning("interrupted changes of runs are left for later: %s", error.detail)
