"""What a run asks servers of others for: calls, images, tokens and money, and how much of it there may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import ClientBody, ResponseBody

SPENT_HEADER = "x-counterpose-spent"
"""On the answer of a service: what it asked servers of others for meanwhile, as JSON of `Spent`."""

MILLION = 1_000_000
MOST_COUNTED = 2**53
"""Counts end here: JSON holds no larger number exactly, and a ledger's column holds the sum of a thousand."""


class Price(ClientBody):
    """What one server takes for one model, in US dollars; what is left out costs nothing."""

    usd_per_call: float = Field(default=0.0, ge=0.0)
    """For each call that is answered."""
    usd_per_image: float = Field(default=0.0, ge=0.0)
    """For each image that is made."""
    usd_per_million_input_tokens: float = Field(default=0.0, ge=0.0)
    """For a million tokens of what is asked."""
    usd_per_million_output_tokens: float = Field(default=0.0, ge=0.0)
    """For a million tokens of what is answered."""

    @model_validator(mode="after")
    def _names_something(self) -> Price:
        # A name that is misspelled is refused as unknown; an empty price would be taken for "free".
        if not self.model_fields_set:
            raise ValueError("a price must name what it is for, such as usd_per_image; write 0 if it is free")
        return self


class Spent(ResponseBody):
    """What servers of others were asked for."""

    calls: int = Field(default=0, ge=0, le=MOST_COUNTED)
    """Number of calls; one that was refused does not count, one whose answer never came does."""
    images: int = Field(default=0, ge=0, le=MOST_COUNTED)
    """Number of images that they made."""
    input_tokens: int = Field(default=0, ge=0, le=MOST_COUNTED)
    """Number of tokens that were sent, as the servers count them."""
    output_tokens: int = Field(default=0, ge=0, le=MOST_COUNTED)
    """Number of tokens that were answered, as the servers count them."""

    @classmethod
    def counted(cls, counts: Mapping[str, float]) -> Self:
        """Return counts of a sum, each at most `MOST_COUNTED`; others than these are left out."""
        return cls.model_validate({name: min(int(counts[name]), MOST_COUNTED) for name in cls.model_fields})

    def __add__(self, other: Spent) -> Spent:
        return Spent.counted({name: own + getattr(other, name) for name, own in self})

    def times(self, n: int) -> Spent:
        """Return ``n`` times as much."""
        return Spent.counted({name: n * own for name, own in self})

    def usd(self, price: Price | None) -> float:
        """What this costs in US dollars."""
        if price is None:
            return 0.0
        return (
            self.calls * price.usd_per_call
            + self.images * price.usd_per_image
            + self.input_tokens * price.usd_per_million_input_tokens / MILLION
            + self.output_tokens * price.usd_per_million_output_tokens / MILLION
        )

    def __str__(self) -> str:
        tokens = f"{self.input_tokens:,} tokens sent and {self.output_tokens:,} answered"
        return f"{number_of(self.calls, 'call')}, {number_of(self.images, 'image')}, {tokens}"


class SpendingLimits(ClientBody):
    """How much a run may ask of servers of others; then it stops and keeps what it has."""

    usd: float | None = Field(default=None, gt=0.0)
    """Most US dollars by `prices`, or null for no limit."""
    images: int | None = Field(default=None, gt=0)
    """Most images, or null for no limit."""
    prices: dict[str, Price] = Field(default={}, max_length=64)
    """Price of each model, by the server's name of it, or by that and the server's host: `model at host`."""

    def of_runs(self, runs: int) -> str:
        """Say what so many runs may take together, each of which has these limits; empty without any."""
        each = [dollars(self.usd)] if self.usd is not None else []
        each += [number_of(self.images, "image")] if self.images is not None else []
        both = [dollars(runs * self.usd)] if self.usd is not None else []
        both += [number_of(runs * self.images, "image")] if self.images is not None else []
        if not each:
            return ""
        return f"{' and '.join(each)} for each of {runs} runs: at most {' and '.join(both)} together"


class SpendsWithin(ClientBody):
    """The request of a run whose services may ask servers of others."""

    spending: SpendingLimits | None = Field(
        default=None,
        # A run of before is stored as it was without this field.
        exclude_if=lambda limits: limits is None,
    )
    """How much the run may ask servers of others for, and what that costs; null for no limit."""


class LargerLimits(ClientBody):
    """New limits of a run that is resumed; one that is left out stays as it is."""

    usd: float | None = Field(default=None, gt=0.0)
    """Most US dollars of the whole run."""
    images: int | None = Field(default=None, gt=0)
    """Most images of the whole run."""


class Spending(ResponseBody):
    """What a run has asked servers of others for."""

    services: dict[str, Spent]
    """What each service asked for, by its name; a classifier that chats has its own, as `chat:colour`."""
    unanswered: Spent = Spent()
    """What is reserved for calls whose answer never came, such as those of a worker that was killed: a part
    of `services`. A service that asked its server again meanwhile may have cost more."""
    usd: float | None = None
    """What all this costs in US dollars by the prices of the request, or null where none were given."""
    unpriced: list[str] = []
    """Models without a price, which `usd` leaves out."""
    unused_prices: list[str] = []
    """Prices of models that no service of the suite calls, or that have a more exact one."""
    stopped: str | None = None
    """Why the run stopped at its limit, in a sentence, or null if it did not."""

    @property
    def total(self) -> Spent:
        """What all services asked for."""
        return summed(self.services.values())

    @property
    def lines(self) -> list[str]:
        """All of it in sentences."""
        paid = "" if self.usd is None else f": {dollars(self.usd)}"
        lost = f", of which up to {self.unanswered} were never answered" if self.unanswered != Spent() else ""
        told = [] if self.stopped is None else [self.stopped]
        return [*told, f"servers of others: {self.total}{paid}{lost}", *price_notes(self)]


class SpendingEstimate(ResponseBody):
    """What a run would ask servers of others for at most."""

    services: dict[str, Spent]
    """Most that each service would ask for, by its name, and each classifier that chats by its own; tokens
    that are sent are not known before."""
    usd: float | None = None
    """What that costs in US dollars by the prices of the request without the tokens that are sent, or null
    where no prices were given."""
    unpriced: list[str] = []
    """Models without a price, which `usd` leaves out."""
    unused_prices: list[str] = []
    """Prices of models that no service of the suite calls, or that have a more exact one."""

    @property
    def lines(self) -> list[str]:
        """All of it in sentences."""
        told = [
            f"{name if ':' in name else f'the {name}'} asks its server at most for "
            f"{number_of(spent.calls, 'call')}, "
            f"{number_of(spent.images, 'image')} and {spent.output_tokens:,} tokens of answers"
            for name, spent in self.services.items()
        ]
        paid = f"at most {dollars(self.usd or 0.0)}, without the tokens that are sent"
        return [*told, *([] if self.usd is None else [paid]), *price_notes(self)]


def summed(spent: Iterable[Spent]) -> Spent:
    """Return all of it together."""
    return sum(spent, Spent())


def added(accounts: Iterable[Spending | None]) -> Spending | None:
    """Return the account of several runs together, of those that have one; None if none has.

    Money is known where every one of them knows it.
    """
    some = [each for each in accounts if each is not None]
    if not some:
        return None
    prices = [each.usd for each in some if each.usd is not None]
    names = sorted({name for each in some for name in each.services})
    return Spending(
        services={name: summed(each.services.get(name, Spent()) for each in some) for name in names},
        unanswered=summed(each.unanswered for each in some),
        usd=sum(prices) if len(prices) == len(some) else None,
        unpriced=sorted({name for each in some for name in each.unpriced}),
        unused_prices=sorted({name for each in some for name in each.unused_prices}),
        stopped="; ".join(each.stopped for each in some if each.stopped) or None,
    )


def usd_of(spent: Mapping[str, Spent], prices: Mapping[str, Price]) -> float:
    """Return what services' spending costs by the prices of these services."""
    return sum(each.usd(prices.get(name)) for name, each in spent.items())


def dollars(usd: float) -> str:
    """Return an amount of money as it is said: to the cent, or two digits of less than one."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.2g}"


def price_notes(told: Spending | SpendingEstimate) -> list[str]:
    """Say which models have no price, and which prices have no model."""
    missing = [f"no price for {name!r}" for name in told.unpriced]
    unused = [
        f"the price of {name!r} is unused: no service calls such a model, or a more exact price is used"
        for name in told.unused_prices
    ]
    return [*missing, *unused]


def number_of(n: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 image``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
