"""How much a run may ask servers of others for, as it is kept with the run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import NamedTuple, Self

from pydantic import BaseModel

from counterpose_core.blobs import digest
from counterpose_core.contract.spending import (
    LargerLimits,
    Price,
    SpendingEstimate,
    SpendingLimits,
    Spent,
    dollars,
    number_of,
    summed,
    usd_of,
)
from counterpose_core.errors import BudgetSpent, InvalidRequest, PriceMissing
from counterpose_core.served_calls import called_models
from counterpose_core.suite import Suite

CallsOfAccount = dict[str, tuple[str, Spent]]
"""The service and cost of each open call, by its id, and of the sum of a service, by its name."""


class RoomHeldError(Exception):
    """Calls under way hold the room that another call needs, and may give it back."""


class Lease(NamedTuple):
    """Who works on which item group of a run; a worker's name is of one process only."""

    worker: str
    item_group: str

    @property
    def mark(self) -> str:
        """What the ids of calls under this lease begin with."""
        return digest(f"{self.worker} {self.item_group}".encode())[:11]

    def new_call(self) -> str:
        """Return the id of a new call, of 32 characters."""
        return f"{self.mark}-{secrets.token_hex(10)}"


class Allotment(BaseModel, frozen=True):
    """The budget of a run, and the prices of its services; ``stopped``: it was reached.

    ``unpriced`` are models that are called and have no price, ``unused`` prices of models that are not.
    """

    usd: float | None = None
    images: int | None = None
    prices: dict[str, Price] = {}
    unpriced: list[str] = []
    unused: list[str] = []
    stopped: bool = False

    @classmethod
    def of(cls, limits: SpendingLimits, suite: Suite) -> Self:
        """Find the price of each service that calls a server: by model and host, or by the model alone."""
        prices, unpriced, used = dict[str, Price](), set[str](), set[str]()
        for service, (model, host) in called_models(suite).items():
            full = f"{model} at {host}"
            if (key := next((name for name in (full, model) if name in limits.prices), None)) is None:
                unpriced.add(full)
            else:
                prices[service] = limits.prices[key]
                used.add(key)
        return cls(
            usd=limits.usd,
            images=limits.images,
            prices=prices,
            # Whoever gives no prices asks for no money.
            unpriced=sorted(unpriced) if limits.prices or limits.usd is not None else [],
            unused=sorted(limits.prices.keys() - used),
        )

    @classmethod
    def required(cls, limits: SpendingLimits, suite: Suite) -> Self:
        """Return the same of a run that is to be made.

        Raises:
            PriceMissing: there is a budget in US dollars, and no price of a model that is called.
            InvalidRequest: the budget bounds nothing: no service of the suite calls a server for that.
        """
        found, called = cls.of(limits, suite), called_models(suite)
        if limits.usd is not None and not called:
            raise _bounds_nothing("usd", suite, "no service that the run asks calls a server")
        if limits.images is not None and "editor" not in called:
            raise _bounds_nothing("images", suite, "the editor, if there is one, makes images by itself")
        if limits.usd is not None and found.unpriced:
            raise PriceMissing(
                f"there is no price for {' or '.join(map(repr, found.unpriced))}, so that {limits.usd:g} US "
                "dollars bound nothing; add it to the prices (--prices FILE), by this name or the model's",
                pointer="/spending/prices",
            )
        return found

    def refusal(self, spent: Mapping[str, Spent], service: str, more: Spent) -> BudgetSpent | None:
        """Say why a service may not ask for so much more; None if it may."""
        if (shortage := self._shortage(spent, service, more)) is None:
            return None
        return BudgetSpent(f"the run has {self.says} ({shortage[1]}); resume it with a larger one")

    def refusal_of_plan(
        self, spent: Mapping[str, Spent], service: str, more: Spent, pointer: str | None
    ) -> BudgetSpent | None:
        """Say the same before the run is made; ``pointer``: where the request has its budget, if it has."""
        if (shortage := self._shortage(spent, service, more)) is None:
            return None
        limit, asked = shortage
        return BudgetSpent(
            f"what the {service} is asked before the run begins does not fit in its budget of {self._limits} "
            f"({asked}); allow a larger one: --budget-{limit}",
            pointer=None if pointer is None else f"{pointer}/{limit}",
        )

    def _shortage(self, spent: Mapping[str, Spent], service: str, more: Spent) -> tuple[str, str] | None:
        """Return the limit that leaves no room for so much more, and how; None if none does."""
        images = summed(spent.values()).images
        if self.images is not None and more.images and images + more.images > self.images:
            next_call = f"the next call asks for up to {more.images:,}"
            return "images", f"{images:,} were asked for or are reserved, and {next_call}"
        usd, further = usd_of(spent, self.prices), usd_of({service: more}, self.prices)
        if self.usd is not None and usd + further > self.usd:
            next_call = f"the next call costs up to {dollars(further)}"
            return "usd", f"{dollars(usd)} are spent or reserved, and {next_call}"
        return None

    @property
    def _limits(self) -> str:
        limits = [dollars(self.usd)] if self.usd is not None else []
        limits += [number_of(self.images, "image")] if self.images is not None else []
        return " and ".join(limits)

    @property
    def says(self) -> str:
        """What a run has done that reached its budget."""
        return f"stopped at its budget of {self._limits}"

    def raised(self, larger: LargerLimits | None, run_id: str) -> Allotment:
        """Return the budget with which the run goes on.

        Raises:
            BudgetSpent: the run stopped at its budget, and nothing of it is larger now.
            InvalidRequest: a limit is new, for which the request had no prices or the suite no use.
        """
        changes = {} if larger is None else larger.model_dump(exclude_none=True)
        own = {field: getattr(self, field) for field in changes}
        if new := next((field for field, value in own.items() if value is None), None):
            raise InvalidRequest(
                f"run {run_id!r} has no budget of {new} that could be changed; leave it out",
                pointer=f"/spending/{new}",
            )
        if self.stopped and not any(value > own[field] for field, value in changes.items()):
            raise BudgetSpent(
                f"run {run_id!r} has {self.says}; resume it with a larger one: --budget-images, --budget-usd"
            )
        return self.model_copy(update={**changes, "stopped": False})


def estimated(spent: dict[str, Spent], limits: SpendingLimits | None, suite: Suite) -> SpendingEstimate:
    """Say what so much costs by the prices of a request."""
    found = Allotment.of(limits or SpendingLimits(), suite)
    return SpendingEstimate(
        services=spent,
        usd=usd_of(spent, found.prices) if found.prices else None,
        unpriced=found.unpriced,
        unused_prices=found.unused,
    )


def _bounds_nothing(field: str, suite: Suite, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"in the suite {suite.name!r} {why}, so that a budget of {field} bounds nothing; leave it out",
        pointer=f"/spending/{field}",
    )
