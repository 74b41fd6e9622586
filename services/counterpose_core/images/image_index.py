"""An exact index of the images nearest to a text in CLIP's embedding space, and its file format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field, ValidationError

from counterpose_core.errors import ArtifactCorrupt, BadBackendOutput, DatasetEmpty, InvalidRequest
from counterpose_core.images.clip_metrics import unit
from counterpose_core.images.near_duplicates import joined, near_pairs
from counterpose_core.types import BlobRef

INDEX_FORMAT = 1
"""Version of index files."""

_SLACK = 1e-5
"""More than the float32 error of an inner product of unit vectors."""
_DECIMALS = 6
"""Similarities are rounded to this many decimals; further ones depend on the order of summation."""
_STORED = np.dtype("<f4")
_END_OF_HEADER = b"\n"


@dataclass(frozen=True)
class FoundImage:
    """An image and the cosine of its features with the query."""

    image: BlobRef
    similarity: float


class IndexDescription(BaseModel, frozen=True, extra="forbid"):
    """Describes an index: its CLIP as ``id@revision``, the digest of its dataset, and its images in order.

    ``unreadable`` maps images of the dataset that could not be read to the reason.
    """

    format: int = Field(default=INDEX_FORMAT, ge=INDEX_FORMAT, le=INDEX_FORMAT)
    checkpoint: str
    dataset_digest: str
    images: tuple[BlobRef, ...] = Field(min_length=1)
    width: int = Field(ge=1)
    unreadable: dict[BlobRef, str] = {}


class ImageIndex:
    """Exact search over unit CLIP features; results do not depend on the order of the images."""

    def __init__(self, description: IndexDescription, features: NDArray[np.float32]) -> None:
        # Takes 0.1 s and 20 MB, which a process that searches nothing need not spend.
        import faiss

        self.description = description
        self._features = features
        self._index = faiss.IndexFlatIP(description.width)
        self._index.add(features)

    @classmethod
    def build(
        cls,
        features: Mapping[BlobRef, ArrayLike],
        *,
        checkpoint: str,
        dataset_digest: str,
        unreadable: Mapping[BlobRef, str] | None = None,
    ) -> ImageIndex:
        """Build an index of images, with features scaled to length 1.

        Args:
            features: the features (D,) of each image.
            checkpoint: the CLIP that made them, as ``id@revision``.
            dataset_digest: the digest of the dataset.
            unreadable: images that could not be read, and why.

        Raises:
            DatasetEmpty: there is no image.
            BadBackendOutput: the features do not all have the same width.
            NumericalFailure: features are zero or not finite.
        """
        unread = dict(sorted((unreadable or {}).items()))
        if not features:
            because = f": none of {len(unread)} can be read" if unread else ""
            raise DatasetEmpty(
                f"there is no image to search{because}; add images to the dataset", pointer="/retrieval"
            )
        # Sorted by reference, so that equal folders make equal files.
        images = tuple(sorted(features))
        widths = {np.shape(features[image]) for image in images}
        if len(widths) > 1 or len(next(iter(widths))) != 1:
            raise BadBackendOutput(f"{checkpoint!r} returned features of different shapes: {sorted(widths)}")
        rows = np.empty((len(images), *widths.pop()), dtype=np.float32)
        # One by one, because float64 features of a large folder would take twice the memory of the index.
        for row, image in zip(rows, images, strict=True):
            row[:] = unit(features[image])
        description = IndexDescription(
            checkpoint=checkpoint,
            dataset_digest=dataset_digest,
            images=images,
            width=rows.shape[1],
            unreadable=unread,
        )
        return cls(description, rows)

    def __len__(self) -> int:
        return len(self.description.images)

    def require(self, *, checkpoint: str, dataset_digest: str) -> None:
        """Check that the index was built with this CLIP for this state of the dataset.

        Raises:
            InvalidRequest: it was built with another CLIP or for another state of the dataset.
        """
        made = self.description
        if made.checkpoint != checkpoint:
            raise InvalidRequest(
                f"the index was built with CLIP {made.checkpoint!r}, but the search uses {checkpoint!r}: "
                "their features are not comparable; rebuild the index",
                pointer="/retrieval",
            )
        if made.dataset_digest != dataset_digest:
            raise InvalidRequest(
                f"the dataset has changed since it was indexed: its digest was {made.dataset_digest!r} and "
                f"is now {dataset_digest!r}; rebuild the index",
                pointer="/retrieval",
            )

    def nearest(self, query: ArrayLike, count: int) -> list[FoundImage]:
        """Return the ``count`` images with the largest cosine with ``query`` (D,), or all if there are fewer.

        Images whose cosines are equal to six decimals are ordered by reference.

        Raises:
            InvalidRequest: ``count`` is below 1.
            BadBackendOutput: the query has another width than the index.
            NumericalFailure: the query is zero or not finite.
        """
        if count < 1:
            raise InvalidRequest(f"cannot search for {count!r} images; ask for at least one")
        if np.shape(query) != (self.description.width,):
            raise BadBackendOutput(
                f"the query has the shape {np.shape(query)}, but the index holds features of "
                f"{self.description.width} numbers"
            )
        wanted = unit(query)
        asked = wanted.astype(np.float32)[None]
        similarities, _ = self._index.search(asked, min(count, len(self)))
        # All images that could tie with the last one, because the library returns ties in any order.
        _, _, rows = self._index.range_search(asked, float(similarities[0, -1]) - _SLACK)
        # Row by row in float64, so that equal features have equal cosines in any row.
        exact = (self._features[rows].astype(np.float64) * wanted).sum(axis=1)
        near = sorted(
            (-round(float(value), _DECIMALS), self.description.images[row])
            for value, row in zip(exact, rows.tolist(), strict=True)
        )
        return [FoundImage(image, -value) for value, image in near[:count]]

    def alike(self, images: Sequence[BlobRef], least: float) -> dict[BlobRef, BlobRef]:
        """Return, of the images that are nearly equal to others, image → the first of those in ``images``.

        Pairs have a cosine of at least ``least``; a chain of pairs is one group (`near_duplicates.joined`).

        Raises:
            InvalidRequest: the index has no such image.
        """
        rows = [bisect_left(self.description.images, image) for image in images]
        for row, image in zip(rows, images, strict=True):
            if self.description.images[row : row + 1] != (image,):
                raise InvalidRequest(f"the index has no image {image!r}")
        if not rows:
            return {}
        first: dict[int, BlobRef] = {}
        numbers = joined(len(rows), near_pairs(self._features[rows], least))
        known = [first.setdefault(number, image) for number, image in zip(numbers, images, strict=True)]
        return {image: other for image, other in zip(images, known, strict=True) if image != other}

    def to_bytes(self) -> bytes:
        """Return the index file: a line of JSON, then the features (N, D) as little-endian float32."""
        # Not the library's own format, because native code would read it without checks.
        header = self.description.model_dump_json().encode()
        return header + _END_OF_HEADER + self._features.astype(_STORED).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> ImageIndex:
        """Read an index file.

        Raises:
            ArtifactCorrupt: the bytes are not an index file.
        """
        header, _, body = data.partition(_END_OF_HEADER)
        try:
            description = IndexDescription.model_validate_json(header)
        except ValidationError as error:
            raise ArtifactCorrupt(
                f"the {len(data)} bytes are not an image index; delete them and search again"
            ) from error
        shape = (len(description.images), description.width)
        if len(body) != shape[0] * shape[1] * _STORED.itemsize:
            raise ArtifactCorrupt(
                f"the index of {shape[0]} images has {len(body)} bytes of features, not "
                f"{shape[0] * shape[1] * _STORED.itemsize}; delete it and search again"
            )
        return cls(description, np.frombuffer(body, dtype=_STORED).reshape(shape).astype(np.float32))
