"""What a classifier answers to the user's own images, before any of them is changed."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import BlobRef, Estimate

SHOWN = 3


class Confusion(ResponseBody):
    """A class that is taken for another one."""

    label: str = Field(description="The true class.")
    answer: str = Field(description="What it is taken for.")
    images: int = Field(ge=1, description="Number of images.")


class Mistake(ResponseBody):
    """An image that is answered wrong."""

    image: BlobRef = Field(description="SHA-256 of the image.")
    source: str = Field(description="Id of the image in its dataset.")
    label: str = Field(description="The true class.")
    answer: str = Field(description="The most probable class.")
    p: float = Field(description="Probability of the answer, in [0, 1].")


class ClassifierBaseline(ResponseBody):
    """The answers of one classifier to some of the images as they are."""

    classifier: str = Field(description="Name of the classifier.")
    accuracy: Estimate = Field(description="Share of the images whose most probable class is the true one.")
    of: int = Field(ge=1, description="Number of images of the dataset that the run takes.")
    unanswered: int = Field(default=0, description="Number of further images on which it failed.")
    detail: str | None = Field(default=None, description="Why it failed on most of these, or null.")
    confusions: list[Confusion] = Field(default=[], description="The most frequent confusions, at most ten.")
    mistakes: list[Mistake] = Field(default=[], description="The surest mistakes, at most six.")

    def __str__(self) -> str:
        found, failed = self.accuracy, ""
        if self.unanswered:
            failed = f"{self.classifier} failed on {self.unanswered} of your images: {self.detail}"
        if found.estimate is None or found.low is None or found.high is None:
            return f"As they are: {failed}"
        some = f"your {self.of} images" if found.n == self.of else f"{found.n} images, of your {self.of}"
        right = (
            f"As they are: {self.classifier} is right on {round(found.estimate * found.n)} of {some} "
            f"({found.estimate:.0%}, 95 % interval {found.low:.0%} to {found.high:.0%})"
        )
        taken = ", ".join(
            f"{each.label} for {each.answer} ({each.images})" for each in self.confusions[:SHOWN]
        )
        return "; ".join(filter(None, [right, f"takes {taken}" if taken else "", failed])) + "."
