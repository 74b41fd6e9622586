"""The figures of a stress test's summary: accuracies, sensitivities and the tests behind them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import Estimate, Selection

CellStatus = Literal["insufficient", "not-shown", "significant"]
"""What a test allows to say: nothing (too few sources with a placebo), no drop shown, a drop shown."""


SHOWN_LEVEL = 0.05
"""Family-wise, of the tests of kinds of change and of the user's own edits."""

LEAST_SHOWN = 0.05
"""The least mean loss of p(true class) that is worth a word, as for findings."""


class Tested(ResponseBody):
    """A test of "p(true class) falls by more than the controls cost"."""

    status: CellStatus | None = None
    """Result of the test: `insufficient`, `not-shown` or `significant`; null if there was no test."""
    significant: bool = False
    """Whether the drop is shown: significant at the level of the family, not too small to be worth a word and
    with intervals of `beyond_controls` and `delta_p` that end before 0."""
    beyond_controls: Estimate | None = None
    """Mean p(true class) of the source image's own placebo minus that of its counterfactuals; n counts source
    images with both, null if there is none."""
    p: float | None = None
    """One-sided p-value of `beyond_controls` by drawing which image of each source image is the placebo, or
    null if it is null."""
    p_adjusted: float | None = None
    """The p-value corrected over the family, or null if there is none."""
    family: str = ""
    """Name of the family of hypotheses that the correction covers; empty if nothing was tested."""
    family_size: int = 0
    """Number of hypotheses in the family; those that are `insufficient` do not count."""
    sources_needed: int | None = None
    """Number of source images with a placebo of their own that a test would take, or null where there are
    enough."""
    detectable_drop: float | None = None
    """Drop that the test would find with 80 % power at the level of the family, never less than the intervals
    of `beyond_controls` and `delta_p` reach from their estimates; null if it could find none."""


class HitRates(ResponseBody):
    """The two headline figures on one set of images; all source images have equal weight."""

    hit_rates: tuple[Estimate, Estimate]
    """Share of images that are answered rightly, and by the more lenient rule; of a classification, of those
    whose most probable class is a right one, and whose five most probable classes include one."""
    n_images: int
    """Number of images."""
    n_sources: int = 0
    """Number of source images behind them."""

    @model_validator(mode="before")
    @classmethod
    def _as_recorded(cls, document: Any) -> Any:
        if isinstance(document, Mapping) and "acc1" in document:
            # Files of before there were tasks.
            return {"hit_rates": (document["acc1"], document["acc5"]), **document}
        return document

    @property
    def rate(self) -> Estimate:
        """Share of images that are answered rightly."""
        return self.hit_rates[0]


class EditTypeSummary(Tested):
    """Sensitivity of a classifier to one edit type; all source images have equal weight."""

    delta_p: Estimate
    """Mean change of the score, counterfactual minus original; n counts source images."""
    abs_delta_p: Estimate
    """Mean absolute change of the score."""
    drop: Estimate
    """Drop of the first headline figure, original minus counterfactual."""
    n_images: int
    """Number of counterfactuals."""
    n_sources: int = 0
    """Number of source images behind them."""

    @property
    def why_not_shown(self) -> str:
        """The rule, in words, by which a drop is not shown although its p is low; empty for any other."""
        beyond, change = self.beyond_controls, self.delta_p.estimate
        if self.status != "not-shown" or beyond is None or beyond.estimate is None or change is None:
            return ""
        if self.p_adjusted is None or self.p_adjusted > SHOWN_LEVEL:
            return ""
        if min(beyond.estimate, -change) < LEAST_SHOWN:
            return f"a loss below {LEAST_SHOWN:g} counts for nothing"
        denied = beyond.low is None or beyond.low <= 0.0
        what, interval = (" beyond the controls", beyond) if denied else ("", self.delta_p)
        return f"its interval{what}, {interval.low or 0.0:.2f} to {interval.high or 0.0:.2f}, includes 0"


class ModelSummary(ResponseBody):
    """Results of one classifier; original, reconstruction and counterfactual cover the same source images."""

    original: HitRates
    """Accuracy on the source images."""
    reconstruction: HitRates
    """Accuracy on their reconstructions."""
    counterfactual: HitRates
    """Accuracy on their counterfactuals."""
    drop: Estimate
    """Drop of acc@1, original minus counterfactual, paired by source image."""
    edit_types: dict[str, EditTypeSummary]
    """Sensitivity by edit type."""
    controls: dict[str, EditTypeSummary] = {}
    """Change under the controls `reconstruction`, `placebo` and `lance-r`, over all kept images of each."""
    beyond_control: Estimate | None = None
    """acc@1 of the reconstruction minus that of the counterfactual, paired by source image; null if there is
    none."""
    beyond_placebo: Estimate | None = None
    """acc@1 of the source image's own placebo minus that of its counterfactuals; n counts source images with
    both, null if there is none."""
    p: float | None = None
    """One-sided p-value of "the model loses right answers beyond the placebos" by drawing which image of each
    source image is the placebo, or null if nothing was tested."""
    p_adjusted: float | None = None
    """The same after Holm's correction over the models and both directions, or null if nothing was tested."""
    p_gain: float | None = None
    """P-value of "the model gains right answers" by the same test, or null."""
    p_gain_adjusted: float | None = None
    """The same after the same correction, or null if nothing was tested."""
    sources_needed: int | None = None
    """Number of source images with a placebo of their own that the test would take, or null where there are
    enough."""
    placebo: HitRates | None = None
    """Accuracy on the placebos, over the source images whose placebo was kept; null where none was."""
    overall: EditTypeSummary | None = None
    """Sensitivity to all edits together, or null if none was kept."""
    second_drop: Estimate | None = None
    """Drop of acc@5, paired by source image, or null if there is none."""
    drop_paper: Estimate | None = None
    """Drop of acc@1 by LANCE's eq. 3 with the opposite sign: all images have equal weight, and originals
    without a kept edit count."""
    second_drop_paper: Estimate | None = None
    """The same for acc@5."""
    changed_by_reconstruction: Estimate | None = None
    """Share of source images whose predicted class the reconstruction alone changes."""
    changed_beyond_reconstruction: Estimate | None = None
    """Share of the counterfactuals of a source image that change the predicted class, less whether its
    reconstruction does, over source images; null where there is none."""
    lance_r: HitRates | None = None
    """Accuracy on the LANCE-R edits, over the source images of which one was kept; null where none was."""
    drop_lance_r: Estimate | None = None
    """Drop of acc@1 under LANCE-R, paired over those source images; null if there are none."""
    family: str = ""
    """Name of the family of hypotheses that the correction covers; empty if nothing was tested."""
    family_size: int = 0
    """Number of hypotheses in the family: losses and gains of every model."""


class InterventionSummary(ResponseBody):
    """Results of one intervention; no other figure includes them."""

    removed: str
    """The words that were replaced."""
    added: str
    """The words that took their place."""
    planned: int
    """Number of items, one for each source image."""
    kept: int
    """Number of counterfactuals that were kept."""
    not_applicable: int
    """Number of captions that do not contain the words to replace."""
    yields: Estimate = Field(alias="yield", serialization_alias="yield")
    """Share of the decided items that were kept."""
    models: dict[str, EditTypeSummary]
    """Sensitivity of each classifier."""
    classes: dict[str, dict[str, Estimate]]
    """Change of p(true class) by class and classifier (LANCE, fig. 9)."""
    sentences: list[str]
    """Results of the tests, one sentence for each classifier."""
    example_item: str = ""
    """Id of the kept item with the largest loss for a classifier; empty if none was kept."""


class Insight(Tested):
    """A change that moves a classifier on one class: a finding where `significant`, else a hint to follow up.

    A finding requires a drop of at least 0.05 beyond the controls, however certain a smaller one is.
    """

    classifier: str
    """Name of the classifier."""
    object_class: str
    """The class."""
    edit_type: str
    """Factor that the edits change."""
    removed: str
    """Words removed; for a cluster, by the edit nearest to its centre."""
    added: str
    """Words added; for a cluster, by the edit nearest to its centre."""
    delta_p: Estimate
    """Mean change of the score, counterfactual minus original; n counts source images."""
    example_item: str
    """Id of a kept item that shows the change."""
    sentence: str
    """The insight in words."""
    n_sources: int = 0
    """Number of source images."""
    n_images: int = 0
    """Number of counterfactuals."""
    cluster_size: int = 1
    """Number of distinct changes of words; above 1, the insight describes a cluster of similar changes."""
    cluster_items: list[str] = []
    """Ids of all edits of the cluster; empty for a single change."""


class FailureMode(ResponseBody):
    """How many kept edits show one of LANCE's failure modes (appendix E)."""

    count: int
    """Number of kept edits that show it."""
    share: Estimate
    """Share of kept edits that show it."""
    rule: str
    """The rule that detects it."""
    example_items: list[str] = []
    """Ids of some items that show it."""


class ClassFigures(ResponseBody):
    """One classifier on one class, over the same source images before and after, equally weighted."""

    original: Estimate
    """acc@1 on the source images."""
    counterfactual: Estimate
    """acc@1 on their counterfactuals."""
    delta_p: Estimate
    """Mean change of the score, counterfactual minus original."""
    n_images: int
    """Number of kept edits."""
    n_sources: int
    """Number of source images behind them."""


class ClassSummary(ResponseBody):
    """Yield and accuracy of one class (LANCE, figures 7 and 8)."""

    planned: int
    """Number of planned edits."""
    kept: int
    """Number of edits that were kept."""
    yields: Estimate = Field(alias="yield", serialization_alias="yield")
    """Share of the decided edits that were kept."""
    models: dict[str, ClassFigures]
    """Accuracy of each classifier."""
    example_item: str = ""
    """Id of the kept edit with the largest loss for a classifier; empty if none was kept."""


class Unanswered(ResponseBody):
    """Images on which a classifier failed; its figures leave them out, and no other classifier's do."""

    classifier: str
    """Name of the classifier."""
    images: int
    """Number of kept images without a prediction by it."""
    of: int
    """Number of kept images."""
    detail: str
    """The most frequent reason."""
    outcomes: dict[str, Estimate] = Field(default={}, exclude_if=lambda shares: not shares)
    """Of a model that answers in words, the share of the images on which it refused, named no label of the
    list, or could not be read, by the code of that outcome. The interval counts each image for itself, though
    those of one source are alike."""

    def __str__(self) -> str:
        told = f"{self.classifier} has no answer on {self.images} of {self.of} images: {self.detail}"
        return "; ".join([told, *(f"{code} {share}" for code, share in self.outcomes.items())])


class SweepSummary(ResponseBody):
    """How the strength sweep was chosen from, and how many of its images were made."""

    selection: Selection
    """Rule by which the value is chosen."""
    values: int
    """Number of values in the sweep."""
    edits: int
    """Number of edits that reached the gate."""
    made: int
    """Number of images made for these edits, at most `values` for each; failed edits do not count."""
