"""The thresholds of a stress test: those in force, a request's own, and the scores to judge by others."""

from typing import Any

from pydantic import Field

from counterpose_core.contract.base import ClientBody, RequestBody, ResponseBody
from counterpose_core.types import Cosine, Estimate, JudgeName


class GateThresholds(RequestBody):
    """The image gate: an edit is kept when each cosine reaches its threshold (LANCE: 0.2, 0.7, 0.2)."""

    direction: Cosine = 0.2
    """Lowest cosine between the change of the image and the change of the caption."""
    image_image: Cosine = 0.7
    """Lowest cosine between the edited image and the original."""
    image_text: Cosine = 0.2
    """Lowest cosine between the edited image and the edited caption."""
    closer: bool = True
    """Whether the edited image must also be closer to the edited caption than to the original one."""


class TextThresholds(RequestBody):
    """The text filters: an edit is dropped when its words are too close to the class or to each other."""

    class_similarity: Cosine = 0.5
    """The edit is dropped if the cosine between a changed word and the class name is at least this."""
    word_similarity: Cosine = 0.5
    """The edit is dropped if the cosine between the removed and the added words is at least this."""


class Thresholds(ClientBody):
    """Thresholds of the user's choice; null leaves the one that is in force otherwise.

    All but `closer` are cosines in [-1, 1], and hold for the models of one suite: another CLIP or sentence
    encoder has other cosines of the same images and words (LANCE, Algorithm 1 and Table 6).
    """

    direction: Cosine | None = None
    """Lowest cosine between the change of the image and the change of the caption, in [-1, 1] (LANCE's tau,
    Table 6c: 0.2)."""
    image_image: Cosine | None = None
    """Lowest cosine between the edited image and the original, in [-1, 1] (Table 6c: 0.7)."""
    image_text: Cosine | None = None
    """Lowest cosine between each image and its caption, in [-1, 1] (Table 6c: 0.2)."""
    closer: bool | None = None
    """Whether the edited image must also be closer to the edited caption than to the original one (section
    3.2)."""
    class_similarity: Cosine | None = None
    """The edit is dropped if the cosine between a changed word and the class name is at least this, in [-1,
    1] (LANCE's epsilon, Table 6a: 0.5)."""
    word_similarity: Cosine | None = None
    """The edit is dropped if the cosine between the removed and the added words is at least this, in [-1, 1]
    (epsilon too, section 3.1: 0.5)."""
    keep: int | None = Field(default=None, ge=1, le=3, exclude_if=lambda keep: keep is None)
    """Number of judges that must call an edit right; all of those that vote, if it is left out."""
    without: JudgeName | None = Field(default=None, exclude_if=lambda name: name is None)
    """A judge of the run that has no vote, such as one that is not calibrated yet."""

    def of_gate(self, otherwise: GateThresholds) -> GateThresholds:
        """The image gate, with these in place of the ``otherwise`` where they are set."""
        return otherwise.model_copy(update=self._set(otherwise))

    def of_text(self, otherwise: TextThresholds) -> TextThresholds:
        """The text filters, with these in place of the ``otherwise`` where they are set."""
        return otherwise.model_copy(update=self._set(otherwise))

    def given(self) -> dict[str, float | bool | str]:
        """The thresholds that are set, by name."""
        return self.model_dump(exclude_none=True)

    def _set(self, otherwise: RequestBody) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if name in type(otherwise).model_fields}


class SweepScores(ResponseBody):
    """The cosines of one strength of an edit's sweep that the image gate reads, all in [-1, 1]."""

    strength: float
    """The strength at which the image was made."""
    direction: float
    """Cosine between the change of the image and that of the caption."""
    image_image: float
    """Cosine of the original image with the edited one."""
    text_original: float
    """Cosine of the original image with its caption."""
    text_edited: float
    """Cosine of the edited image with the edited caption."""
    text_edited_source: float
    """Cosine of the edited image with the original caption."""

    @property
    def words_added(self) -> None:
        """Not kept: only the random baseline's gate reads it, which has no thresholds."""
        return None

    @property
    def words_removed(self) -> None:
        """Not kept, likewise."""
        return None


class WordSimilarities(ResponseBody):
    """The cosines that the text filters read, in [-1, 1]."""

    class_similarity: float | None = None
    """Largest cosine of the class name with removed or added words, or null without words."""
    word_similarity: float | None = None
    """Cosine of the removed with the added words, or null if either is missing."""


class TextScores(WordSimilarities):
    """The cosines of an edit's words, and of the proposals that the text filters dropped before it."""

    passed_over: list[WordSimilarities] = []
    """Earlier proposals of the same slot that were too similar, in their order."""


class JudgedAgain(ResponseBody):
    """How a summary differs from its run's: other thresholds, applied to the recorded scores."""

    gate: GateThresholds
    """Thresholds of the image gate that the figures are for."""
    text: TextThresholds
    """Thresholds of the text filters that the figures are for."""
    own_gate: GateThresholds
    """The run's own thresholds of the image gate."""
    own_text: TextThresholds
    """The run's own thresholds of the text filters."""
    keep: int | None = Field(default=None, exclude_if=lambda keep: keep is None)
    """Number of judges that must call an edit right, or null for the run's own."""
    without: JudgeName | None = Field(default=None, exclude_if=lambda name: name is None)
    """The judge that has no vote, or null for the run's own."""
    rule: str | None = Field(default=None, exclude_if=lambda rule: rule is None)
    """The rule of the judges in words, where it is not the run's."""
    dropped: int
    """Images that the run kept and that these thresholds drop."""
    left_out: dict[str, int]
    """Items that no figure includes, by why they cannot be judged without making an image or asking a
    classifier: `not-made`, `not-classified` or `not-scored`."""
    share_left_out: Estimate
    """Share of the items with thresholds that are left out; n counts those that have ended."""

    def __str__(self) -> str:
        changed = ", ".join(
            f"{name} {value} (the run's: {own[name]})"
            for own, new in ((self.own_gate.model_dump(), self.gate), (self.own_text.model_dump(), self.text))
            for name, value in new.model_dump().items()
            if value != own[name]
        )
        changed = ", ".join(filter(None, (changed, self.rule)))
        lines = [f"Judged again by {changed or 'its own thresholds'}: no image was made."]
        kept = "image that the run kept is" if self.dropped == 1 else "images that the run kept are"
        lines.append(f"{self.dropped} {kept} dropped.")
        if self.left_out:
            why = "; ".join(f"{number} {_WHY[reason]}" for reason, number in self.left_out.items())
            lines.append(f"Left out of all figures: {self.share_left_out} of the edits and placebos: {why}.")
        if changed:
            lines.append(
                "These thresholds were chosen after the images were made: take a finding for a hint, and "
                "confirm it by a run that has them from the start."
            )
        return " ".join(lines)


_WHY = {
    "not-made": "would be another edit, which was never made",
    "not-classified": "have an image that no classifier was asked about",
    "not-scored": "were recorded without the scores that it takes",
}
