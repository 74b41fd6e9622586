"""What a classifier answers to the user's own images, before any of them is changed."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.order_effects import OrderEffect
from counterpose_core.contract.preparations import PREPARATIONS
from counterpose_core.types import BlobRef, Estimate

SHOWN = 3
_DESCRIBED_IN = {"local": "config.json", "hf": "preprocessor_config.json"}
"""The file that says how a classifier's images are prepared, by the scheme of its name."""


class ConfusedClasses(ResponseBody):
    """A class that is taken for another one."""

    label: str
    """The true class."""
    answer: str
    """What it is taken for."""
    images: int = Field(ge=1)
    """Number of images."""


class Mistake(ResponseBody):
    """An image that is answered wrong."""

    image: BlobRef
    """SHA-256 of the image."""
    source: str
    """Id of the image in its dataset."""
    label: str
    """The true class."""
    answer: str
    """The most probable class."""
    p: float
    """Probability of the answer, in [0, 1]."""


class BetterPreparation(ResponseBody):
    """Another preparation of a classifier's images, with which it does much better."""

    name: str
    """The preparation, in words."""
    accuracy: Estimate
    """Its share of right answers, of the same images."""


class ClassifierBaseline(ResponseBody):
    """The answers of one classifier to some of the images as they are."""

    classifier: str
    """Name of the classifier."""
    accuracy: Estimate
    """Share of the images whose most probable class is the true one."""
    of: int = Field(ge=1)
    """Number of images of the dataset that the run takes."""
    unanswered: int = 0
    """Number of further images on which it failed."""
    detail: str | None = None
    """Why it failed on most of these, or null."""
    confusions: list[ConfusedClasses] = []
    """The most frequent confusions, at most ten."""
    mistakes: list[Mistake] = []
    """The surest mistakes, at most six."""

    order: OrderEffect | None = Field(default=None, exclude_if=lambda order: order is None)
    """What the order of the labels does to the answers of a model that chats, on the first of the images;
    null for any other, or where it could not be measured."""
    tried: int | None = None
    """Number of other preparations that were tried; 0 where it prepares its images itself, null where it is
    right too often to ask, or the others could not be tried."""
    better: BetterPreparation | None = None
    """The best of those that are right on at least a tenth more of the images, as shown by an exact test at 5
    % over all; null if none is."""

    @property
    def warning(self) -> str | None:
        """What to look at before any other figure, or None."""
        if self.better is None:
            return None
        accuracy = self.better.accuracy
        return (
            f"{self.classifier} is probably fed wrongly: with {self.better.name} it is right on "
            f"{round((accuracy.estimate or 0) * accuracy.n)} of {accuracy.n} of these images; {self._remedy}."
        )

    @property
    def _remedy(self) -> str:
        scheme = self.classifier.partition(":")[0]
        if scheme not in _DESCRIBED_IN:
            return "give it its own preprocessing (transform=)"
        if self.better is not None and self.better.name == PREPARATIONS["blue-first"]:
            return "save it with a first layer that takes red before blue"
        return f"correct mean and deviation in its {_DESCRIBED_IN[scheme]}"

    @property
    def _otherwise(self) -> str:
        """What is known of other preparations, where it is often wrong."""
        if self.tried is None or self.better is not None:
            return ""
        if not self.tried:
            return "no other normalisation or channel order was tried, as it prepares its images itself"
        if self.tried == 1:
            return "the one other channel order or normalisation that was tried does not do much better"
        return f"none of {self.tried} other normalisations and channel orders does much better"

    def __str__(self) -> str:
        accuracy, failed = self.accuracy, ""
        if self.unanswered:
            failed = f"{self.classifier} failed on {self.unanswered} of your images: {self.detail}"
        if accuracy.estimate is None or accuracy.low is None or accuracy.high is None:
            return f"As they are: {failed}"
        some = (
            f"your {self.of} images" if accuracy.n == self.of else f"{accuracy.n} images, of your {self.of}"
        )
        right = (
            f"As they are: {self.classifier} is right on {round(accuracy.estimate * accuracy.n)} of {some} "
            f"({100 * accuracy.estimate:.0f} %, 95 % interval {100 * accuracy.low:.0f} to "
            f"{100 * accuracy.high:.0f} %)"
        )
        taken = ", ".join(
            f"{each.label} for {each.answer} ({each.images})" for each in self.confusions[:SHOWN]
        )
        said = [right, f"takes {taken}" if taken else "", self._otherwise, failed]
        warned = "" if self.warning is None else f" {self.warning}"
        turned = "" if self.order is None else f" By the order of its labels: {self.order}."
        return f"{'; '.join(filter(None, said))}.{turned}{warned}"
