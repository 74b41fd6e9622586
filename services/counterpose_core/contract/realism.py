"""How realistic generated images and captions are: parts of the summary of a stress test."""

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import Estimate


class RealismRow(ResponseBody):
    """Distance of one set of images from the originals in feature space."""

    kernel: Estimate | None = None
    """Kernel distance, the unbiased squared maximum mean discrepancy under (x·y/d + 1)³, which may be
    negative; n counts source images. Null if there are too few."""
    no_kernel: str = ""
    """Why there is no kernel distance; empty if there is one."""
    frechet: float | None = None
    """Squared Fréchet distance, without an interval and biased upwards for few images; null if there are too
    few."""
    frechet_corrected: Estimate | None = None
    """The same without most of its bias, by a jackknife over groups of images; it may be negative, n counts
    images of the smaller set. Null if it was not computed."""
    no_frechet: str = ""
    """Why there is no Fréchet distance; empty if there is one."""
    n_images: int = 0
    """Number of images in the set."""
    n_sources: int = 0
    """Number of source images that they come from."""


class RealismSummary(ResponseBody):
    """How realistic the images of a stress test are."""

    network: str
    """Network whose features are compared."""
    width: int
    """Number of features."""
    n_originals: int
    """Number of original images."""
    floor: RealismRow
    """Distance between two random halves of the originals; a distance up to this one shows no difference."""
    rows: dict[str, RealismRow]
    """Distances of the reconstructions, LANCE-R edits and counterfactuals that the run has."""
    edit_types: dict[str, RealismRow] = {}
    """Distances of the counterfactuals by edit type, for types with enough source images."""


class PerplexityRow(ResponseBody):
    """Likelihood of one set of captions under a language model."""

    perplexity: Estimate | None = None
    """Perplexity per token; n counts source images. Null if there are too few."""
    no_perplexity: str = ""
    """Why there is no perplexity; empty if there is one."""
    tokens: int = 0
    """Number of tokens over all captions."""
    n_captions: int = 0
    """Number of captions."""


class PerplexitySummary(ResponseBody):
    """How natural the captions of a stress test are under a language model that sees no image."""

    language_model: str
    """The language model; perplexities under different models are not comparable."""
    rows: dict[str, PerplexityRow]
    """Perplexity of the original, placebo, LANCE-R and counterfactual captions that the run has."""
