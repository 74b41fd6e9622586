"""Where an edit may change its image, and by what the rest stays as it is."""

from __future__ import annotations

from typing import Literal

from counterpose_core.contract.base import RequestBody, ResponseBody
from counterpose_core.types import BlobRef, Side

RegionOfEdits = Literal["object", "background", "mask", "words"]
"""Where the edits of a run may change an image."""
OF_MASKS: tuple[RegionOfEdits, ...] = ("object", "background", "mask")
"""Those that a mask bounds; ``words`` is bounded by the attention to the changed words."""
ConfinedBy = Literal["latent", "mask", "composite"]
"""What keeps the rest: latents are the source's at each step, and pixels those of the image with nothing
changed; the server took the mask; or pixels of the source are put back after the edit."""


class EditRegion(RequestBody):
    """Where an edit may change an image."""

    mask: BlobRef
    """SHA-256 of a mask in the store, as large as the image and light inside."""
    edits: Side = "inside"
    """The side of the mask that the edit may change."""


class ConfinedEdit(ResponseBody):
    """Where an edit was to change its image, and how the rest was kept."""

    mask: BlobRef
    """SHA-256 of the mask in the store, light inside."""
    edits: Side
    """The side of the mask that the edit was to change."""
    by: ConfinedBy | None = None
    """What kept the rest: `latent`, the latents of the source; `mask`, the server, which took the mask;
    `composite`, pixels of the source, put back after the edit. Null where the editor did not say."""
    unchanged: BlobRef | None = None
    """SHA-256 of the image with nothing changed, by the path of the edit, that what left the region is told
    by; null where that is the source."""
