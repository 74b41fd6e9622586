"""How much the answers of a model that chats depend on the order in which it reads the labels."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import RequestBody, ResponseBody, require_distinct
from counterpose_core.contract.recipes import ImageRef
from counterpose_core.types import ClassifierSpec, Estimate, Seed

MOST_TURNED_IMAGES = 20
"""Images that are asked about in every order: a run's creation waits for them, and they cost calls."""
MOST_ORDERS = 8


def rotations(labels: int) -> list[int]:
    """Return the place of the label that each order begins with: all of them, or eight that lie evenly."""
    orders = min(labels, MOST_ORDERS)
    return [order * labels // orders for order in range(orders)]


class OrderEffectRequest(RequestBody):
    """``POST /v1/order-effect``: ask a classifier that chats about images in several orders of the labels."""

    classifier: ClassifierSpec
    """The classifier, such as `chat:colour`."""
    images: list[ImageRef] = Field(min_length=1, max_length=MOST_TURNED_IMAGES)
    """SHA-256 of each image, or a recipe, as in `ClassifyRequest`."""
    classes: list[str] = Field(min_length=2, max_length=10_000)
    """Class names in the order that is turned: each order begins with another one, and goes on from it."""
    seed: Seed
    """Seed of the resampling behind the intervals."""

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        require_distinct(self.classes)
        return self


class OrderEffect(ResponseBody):
    """What the order of the labels does to the answers of a model that chats."""

    orders: int = Field(ge=1)
    """Number of orders that each image was asked in: all rotations of up to eight labels, eight of more."""
    changes: Estimate
    """Share of the images whose answer is not the same in all orders; each image is a unit."""
    first: Estimate | None = None
    """Share of the answers that name the label listed first, averaged over images; without an effect of the
    order it is `even`. Null where not all rotations were asked."""
    last: Estimate | None = None
    """The same of the label listed last."""
    even: float = Field(gt=0.0, le=1.0)
    """One divided by the number of labels."""
    unanswered: int = Field(default=0, ge=0)
    """Number of further images without a label in one of the orders, which are left out."""

    def __str__(self) -> str:
        said = [f"its answer changes with the order of the labels on {_share(self.changes, 'images')}"]
        for place, share in (("first", self.first), ("last", self.last)):
            if share is not None and share.low is not None and share.low > self.even:
                share_of = _share(share, f"images' answers, not {100 * self.even:.0f} %")
                said.append(f"it prefers the label listed {place}: {share_of}")
        if self.unanswered:
            said.append(f"{self.unanswered} without a label in some order are left out")
        return f"{'; '.join(said)} ({self.orders} orders)"


def _share(share: Estimate, of: str) -> str:
    if share.estimate is None or share.low is None or share.high is None:
        return "none of 0 images"
    ends = f"{100 * share.low:.0f} to {100 * share.high:.0f} %"
    return f"{100 * share.estimate:.0f} % of {share.n} {of} (95 % interval {ends})"
