"""Sources as they are added to a dataset, and what is stored in it and all others of its tenant."""

from __future__ import annotations

from dataclasses import dataclass

LEAVING_SECONDS = 3600.0
"""How long the store keeps what no row names any more; it counts as stored as long."""


@dataclass(frozen=True, kw_only=True)
class NewSource:
    """A stored image: ``image`` is its blob; width and height are in pixels.

    ``mask`` is the blob that says where its object is; ``stored`` counts the bytes of both. ``pair`` is the
    JSON of what it was made of, and ``labels`` of its further labels.
    """

    image: str
    label: str
    filename: str
    caption: str | None
    width: int
    height: int
    group: str | None = None
    stored: int = 0
    mask: str | None = None
    pair: str | None = None
    labels: str | None = None


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Number of images and their bytes as stored, in one dataset and in all together.

    ``all_bytes`` has what the tenant has stored beside its datasets, too.
    """

    images: int
    bytes: int
    all_images: int
    all_bytes: int

    def plus(self, images: int, size: int) -> Stored:
        """Return what is stored with so many more images of ``size`` bytes together."""
        return Stored(
            images=self.images + images, bytes=self.bytes + size,
            all_images=self.all_images + images, all_bytes=self.all_bytes + size,
        )  # fmt: skip
