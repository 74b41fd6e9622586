"""How real generated pictures look, and how likely captions are: parts of a stress test's summary."""

from __future__ import annotations

from faultline_core.contract.base import ResponseBody
from faultline_core.types import Estimate


class RealismRow(ResponseBody):
    """Distances of one set of pictures from the originals; None with the reason where there are too few.

    ``kernel`` is the squared maximum mean discrepancy under the kernel (x·y/d + 1)³, unbiased, so it may
    lie below 0; its ``n`` counts sources. ``frechet`` is squared, has no interval, and is biased
    upwards the more the fewer pictures there are. Both are without unit.
    """

    kernel: Estimate | None = None
    no_kernel: str = ""
    frechet: float | None = None
    no_frechet: str = ""
    n_images: int = 0
    n_sources: int = 0


class RealismSummary(ResponseBody):
    """Distances in the features of ``network`` (unit vectors times √width).

    ``floor`` is that of two random halves of the ``n_originals`` originals from each other: what says
    nothing. ``rows`` are reconstruction, lance-r and counterfactual, where the run has any, and
    ``edit_types`` the counterfactuals of each type with enough sources.
    """

    network: str
    width: int
    n_originals: int
    floor: RealismRow
    rows: dict[str, RealismRow]
    edit_types: dict[str, RealismRow] = {}


class PerplexityRow(ResponseBody):
    """Perplexity per token of one set of captions, ``n`` sources; None with the reason for too few."""

    perplexity: Estimate | None = None
    no_perplexity: str = ""
    tokens: int = 0
    n_captions: int = 0


class PerplexitySummary(ResponseBody):
    """Perplexity of captions under ``language_model``, which sees no picture; only its own figures compare.

    ``rows`` are original, placebo, lance-r and counterfactual, where the run has any. A reconstruction
    has the caption of its original, and so its perplexity.
    """

    language_model: str
    rows: dict[str, PerplexityRow]
