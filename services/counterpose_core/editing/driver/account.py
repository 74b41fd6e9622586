"""What the denoiser calls of some walks cost, owner by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from counterpose_core.editing.driver.evaluation import Owner
from counterpose_core.editing.driver.joined_call import JoinedCall, Piece
from counterpose_core.types import Cost


class Account:
    """Counts calls, evaluations, attention maps and waits of each owner, and of all together."""

    def __init__(self) -> None:
        self._calls: Counter[Owner] = Counter()
        self._rows: Counter[Owner] = Counter()
        self._backward: Counter[Owner] = Counter()
        self._map_bytes: Counter[Owner] = Counter()
        self._host_syncs: Counter[Owner] = Counter()
        self._all_calls = self._all_host_syncs = 0

    def cost(self, owner: Owner) -> Cost:
        """Return the cost of an owner's evaluations so far.

        Calls and host synchronisations count for every owner that took part in them. Evaluations (samples),
        backward evaluations (samples) and attention maps (bytes) count only for their owner.
        """
        return Cost(
            unet_calls=self._calls[owner],
            unet_evaluations=self._rows[owner],
            unet_backward_evaluations=self._backward[owner],
            attention_map_bytes=self._map_bytes[owner],
            host_syncs=self._host_syncs[owner],
        )

    @property
    def total(self) -> Cost:
        """The cost of all owners; a call that several of them share counts once."""
        return Cost(
            unet_calls=self._all_calls,
            unet_evaluations=self._rows.total(),
            unet_backward_evaluations=self._backward.total(),
            attention_map_bytes=self._map_bytes.total(),
            host_syncs=self._all_host_syncs,
        )

    def charge(self, pieces: Sequence[Piece]) -> None:
        """Charge a call to all owners that take part, before it is made, so that failed calls count too."""
        payers = [payer for piece in pieces for payer in piece.payers]
        self._all_calls += 1
        # One by one: `Counter.update` takes longer than all that a request of one row costs otherwise.
        for payer in set(payers):
            self._calls[payer] += 1
        for payer in payers:
            self._rows[payer] += 1
        if pieces[0].evaluation.objective is not None:
            self._backward.update(payers)

    def settle(self, pieces: Sequence[Piece], call: JoinedCall) -> None:
        """Charge the attention maps and host synchronisations of a call to the owners that take part."""
        if call.row_map_bytes:
            for payer in (payer for piece in pieces if piece.carried for payer in piece.payers):
                self._map_bytes[payer] += call.row_map_bytes
        if call.host_syncs:
            self._all_host_syncs += call.host_syncs
            for payer in {payer for piece in pieces for payer in piece.payers}:
                self._host_syncs[payer] += call.host_syncs
