"""How well an image suits a model suite: the measures, and what the suite's own images measure at least."""

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import RequestBody, ResponseBody
from counterpose_core.contract.editor_backends import EditorBackend
from counterpose_core.types import Cosine, Estimate, Name

Measure = Literal["caption_nats", "image_text", "psnr_db"]
"""The captioner's likelihood of its own caption, how the image fits that caption, and its reconstruction."""

MEASURES: tuple[Measure, ...] = ("caption_nats", "image_text", "psnr_db")

OutsideSuite = Literal["stop", "continue"]
"""What a run does whose images lie outside what its suite knows."""


class SuiteFit(ResponseBody):
    """What was measured of one image, and the measures by which it lies outside the suite."""

    caption_nats: float | None = None
    """Log-likelihood of its caption in nats per token, or null for a caption of the user's."""
    image_text: float | None = None
    """CLIP cosine of the image with its caption, or null for a caption of the user's."""
    psnr_db: float | None = None
    """PSNR of its reconstruction in dB, or null if another preset made it than the calibration's."""
    outside: list[Measure] = []
    """Measures that lie below those of the suite's own images."""


class KnownImages(RequestBody):
    """What nearly all images that a suite was trained for measure at least, calibrated on its own images.

    Each value is the quantile 1/300 of its measure, so that at most one such image in a hundred lies below
    any.
    """

    caption_nats: float
    """Log-likelihood of the captioner's caption given the image, in nats per token."""
    image_text: Cosine
    """CLIP cosine of the image with that caption."""
    psnr_db: float
    """PSNR of the image's reconstruction by `preset`, in dB."""
    preset: Name
    """Preset of the editor whose reconstructions were measured."""
    backend: EditorBackend = "prompt-to-prompt"
    """The backend that the preset is for."""
    images: int = Field(ge=1)
    """Number of images of the calibration."""

    def fit(
        self,
        *,
        caption_nats: float | None = None,
        image_text: float | None = None,
        psnr_db: float | None = None,
    ) -> SuiteFit:
        """Judge one image by its measures, each in the unit of the field; one that is None does not count."""
        measured = {"caption_nats": caption_nats, "image_text": image_text, "psnr_db": psnr_db}
        lowest = self.model_dump()
        outside = [name for name, value in measured.items() if value is not None and value < lowest[name]]
        return SuiteFit.model_validate(measured | {"outside": outside})


class SuiteFitSummary(ResponseBody):
    """How many source images lie outside what the suite knows."""

    suite: str
    """Name of the suite."""
    outside: int
    """Number of images that lie outside by at least one measure."""
    share: Estimate
    """Their share of the images looked at, n."""
    by: dict[Measure, int]
    """Number of images that lie outside, by measure."""

    @property
    def is_outside(self) -> bool:
        """Whether most of the images lie outside."""
        return 2 * self.outside > self.share.n

    @property
    def warning(self) -> str:
        """How many images lie outside, and by what, in one sentence."""
        why = "; ".join(f"{_WHY[name]} ({number})" for name, number in self.by.items() if number)
        lie = "lies" if self.outside == 1 else "lie"
        return (
            f"{self.outside} of {self.share.n} images {lie} outside what suite {self.suite!r} was trained "
            f"on: {why}."
        )

    @property
    def remedy(self) -> str:
        """What to do about it, as an imperative."""
        return "choose a suite with published weights (docs/how-to/gpu.md)"

    def __str__(self) -> str:
        return f"{self.warning} Its models cannot edit such images, so {self.remedy}."


_WHY: dict[Measure, str] = {
    "caption_nats": "the captioner is unsure of its caption",
    "image_text": "the caption does not fit the image",
    "psnr_db": "the editor cannot redraw the image",
}
