"""Bodies of preservation: what an edit moved, recoloured or changed where no change was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import MAX_BATCH, CostedBatchResponse, RequestBody, ResponseBody
from counterpose_core.contract.regions import EditRegion
from counterpose_core.types import BlobRef, Estimate

Fault = Literal["reshaped", "moved", "scaled", "drifted", "leaked", "ignored"]
FAULTS: tuple[Fault, ...] = ("reshaped", "moved", "scaled", "drifted", "leaked", "ignored")
OF_EDITS: tuple[Fault, ...] = ("reshaped", "moved", "scaled", "ignored")
"""What can be told of an edit whose region nobody gave."""
OF_REGIONS: tuple[Fault, ...] = ("drifted", "leaked")
"""What can be told besides where the region was given."""
OF_MOVEMENT: tuple[Fault, ...] = ("reshaped", "moved", "scaled")
"""What may itself cost a classifier its answer, whatever else the edit changed."""
OF_CONTROLS: tuple[Fault, ...] = ("reshaped", "moved", "scaled", "drifted", "leaked")
"""What can be told where nothing was to change."""

MEANINGS: Mapping[Fault, str] = MappingProxyType(
    {
        "reshaped": "have another ratio of width to height",
        "moved": "are shifted by more than 1 % of a side",
        "scaled": "are larger or smaller by more than 1.5 %",
        "drifted": "have other colours all over",
        "leaked": "differ where nothing was to change",
        "ignored": "show no change",
    }
)
"""What images with this fault do, as the end of a sentence."""

IMAGES: Mapping[str, str] = MappingProxyType(
    {
        "control": "controls",
        "placebo": "placebos",
        "edit": "edits",
        "lance-r": "edits of a random word",
        "own edit": "own edits",
    }
)
"""What the images of a row are called."""

PreservationOf = Literal["served", "all", "none"]
"""Whose edits are measured: those of a server, all, or none."""

Pair = tuple[float, float]


class PreservationItem(RequestBody):
    """A source image and what an editor made of it."""

    original: BlobRef
    """SHA-256 of the image before the edit."""
    edited: BlobRef
    """SHA-256 of the image after the edit."""
    control: bool = False
    """Whether nothing was to change: then all that differs counts."""
    region: EditRegion | None = Field(default=None, exclude_if=lambda region: region is None)
    """Where the original was to change, or null where nobody said."""
    unchanged: BlobRef | None = Field(default=None, exclude_if=lambda unchanged: unchanged is None)
    """SHA-256 of the original with nothing changed, by the path of the edit, perhaps cropped to its middle
    square: what an editor does to every image is then no fault of the edit. Null to compare with the
    original."""


class PreservationRequest(RequestBody):
    """``POST /v1/preservation``: pairs whose preservation is to be measured."""

    items: list[PreservationItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The pairs."""


class Movement(ResponseBody):
    """How the edited image lies on its source."""

    shift: Pair
    """Shift of the image's middle, across and down, in shares of width and height."""
    scale: Pair
    """Scale across and down; 1.05 is five per cent larger."""
    visible: float
    """Share of the source's frame that is still in the edited image, in [0, 1]."""


class PlaceChange(ResponseBody):
    """How much a place of the image differs; all are 0 of equal images."""

    share: float
    """The place's share of the image, in [0, 1]."""
    structure: float
    """Mean of 1 - SSIM, in [0, 2]."""
    colour: float
    """Mean colour difference ΔE*ab in CIELAB, of which 2.3 is just noticeable."""
    worst_structure: float
    """1 - SSIM of the worst window of 8 % of the longest side."""
    worst_colour: float
    """ΔE*ab of the worst window."""


class Preservation(ResponseBody):
    """What an edit did to its source image; a score that is null has its reason in `missing`."""

    control: bool = False
    """Whether nothing was to change."""
    faults: list[Fault]
    """What is beyond its limit; `drifted` and `leaked` are told of controls, and of edits whose region was
    given."""
    unmeasured: list[Fault] = []
    """Faults that cannot be told of this image; `missing` says why."""
    size_ratio: Pair
    """Width and height of the edited image by those of its source."""
    movement: Movement | None = None
    """Shift and scale, which are undone before anything else is compared."""
    region_share: float | None = None
    """Share of the image that changed visibly, or that was given as the region, in [0, 1]; 0 of a control."""
    inside: PlaceChange | None = None
    """Change inside that region."""
    outside: PlaceChange | None = None
    """Change outside it."""
    drift_colour: float | None = None
    """Mean ΔE*ab of a change of colour that all steady pixels share."""
    drift_hue: float | None = None
    """Degrees by which hues turned, from -180 to 180."""
    missing: dict[str, str] = {}
    """Why a score is null, by the score."""
    map: BlobRef | None = None
    """SHA-256 of the difference map, blue where nothing changed and yellow where much did; null of images of
    fewer than 32 pixels a side."""


class PreservationResponse(CostedBatchResponse[Preservation]):
    """Answer to `PreservationRequest`."""


class PreservationRow(ResponseBody):
    """The faults of one kind of images."""

    measured: int
    """Number of images that were measured."""
    left_out: int
    """Number of kept images that were not."""
    shares: dict[Fault, Estimate]
    """Share of the images with each fault, of those of which it can be told, with its interval over source
    images; no share where it can be told of none."""
    unmeasured: dict[Fault, int] = {}
    """Number of measured images of which each fault cannot be told, where there are any."""
    any_fault: Estimate
    """Share with at least one fault, of the images that have one or of which all can be told."""
    example_items: dict[Fault, list[str]] = {}
    """Ids of items with each fault, at most three."""

    @property
    def worst(self) -> tuple[Fault, Estimate] | None:
        """The commonest fault and its share; None where there is none."""
        name = max(self.shares, key=lambda each: self.shares[each].estimate or 0.0, default=None)
        return None if name is None or not self.shares[name].estimate else (name, self.shares[name])


class AnswersLost(ResponseBody):
    """Of right answers, the share that edits make wrong: where the image moved as well, and where not."""

    moved: Estimate
    """Share over edits that are moved, scaled or reshaped."""
    right: Estimate
    """Share over edits without any fault; edits that show no change are in neither."""


class PreservationSummary(ResponseBody):
    """Whether only the asked change changed, by kind of image: `control`, `placebo`, `edit` and others."""

    rows: dict[str, PreservationRow]
    """Faults by kind; of controls, and of edits with a region, also `drifted` and `leaked`."""
    answers_lost: dict[str, AnswersLost] = {}
    """Right answers that edits make wrong, with and without a movement, by classifier; empty where no edit
    moved, or all did."""

    @property
    def worst(self) -> dict[str, tuple[Fault, Estimate]]:
        """The commonest fault and its share, of each kind of image that has any."""
        return {name: row.worst for name, row in self.rows.items() if row.worst is not None}

    @property
    def lines(self) -> list[str]:
        """The commonest fault of each kind of image, what changed outside regions, what faults may cost."""
        faults = [
            f"{_in_words(share)} of the {IMAGES.get(name, name)} {MEANINGS[fault]} (n={share.n})."
            for name, (fault, share) in self.worst.items()
            if fault != "leaked" or name == "control"
        ]
        outside = [
            f"{_in_words(share)} of the {IMAGES.get(name, name)} change what lies outside their region "
            f"(n={share.n})."
            for name, row in self.rows.items()
            if name != "control" and (share := row.shares.get("leaked")) is not None
        ]
        lost = [
            f"{name}: of right answers, edits that are moved, scaled or reshaped make "
            f"{_in_words(answers.moved)} wrong (n={answers.moved.n}), edits without a fault "
            f"{_in_words(answers.right)} (n={answers.right.n})."
            for name, answers in self.answers_lost.items()
        ]
        return [*faults, *outside, *lost]


def _in_words(share: Estimate) -> str:
    estimate, low, high = (100 * (each or 0.0) for each in (share.estimate, share.low, share.high))
    return f"{estimate:.1f} % (95 % interval {low:.1f} to {high:.1f} %)"
