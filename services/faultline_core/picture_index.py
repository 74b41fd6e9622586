"""The pictures of a folder nearest to a text in CLIP's space: an exact index of them, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faultline_core.clip_metrics import unit
from faultline_core.errors import ArtifactCorrupt, BadBackendOutput, DatasetEmpty, InvalidRequest
from faultline_core.types import BlobRef

INDEX_FORMAT = 1
"""Version of index files."""

_SLACK = 1e-5
"""More than float32 gets an inner product of unit vectors wrong by."""
_DECIMALS = 6
"""Of similarities that are told apart: below, the order of a sum decides and not the pictures."""
_STORED = np.dtype("<f4")
_END_OF_HEADER = b"\n"


@dataclass(frozen=True)
class FoundPicture:
    """A picture and the cosine of its features with those it was searched by."""

    picture: BlobRef
    similarity: float


class IndexDescription(BaseModel):
    """What an index is of: a CLIP as ``id@revision``, the digest of a dataset, its pictures in order.

    ``unreadable`` tells of pictures of the dataset that could not be read, and why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(default=INDEX_FORMAT, ge=INDEX_FORMAT, le=INDEX_FORMAT)
    checkpoint: str
    dataset_digest: str
    pictures: tuple[BlobRef, ...] = Field(min_length=1)
    width: int = Field(ge=1)
    unreadable: dict[BlobRef, str] = {}


class PictureIndex:
    """Unit CLIP features of pictures, searched exactly: nothing depends on the order they came in."""

    def __init__(self, description: IndexDescription, features: NDArray[np.float32]) -> None:
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
    ) -> PictureIndex:
        """Index the features (D) of each picture, scaled to length 1.

        Raises:
            DatasetEmpty: there is none.
            BadBackendOutput: they are not all of one width.
            NumericalFailure: some are zero or not finite.
        """
        unread = dict(sorted((unreadable or {}).items()))
        if not features:
            because = f": none of {len(unread)} can be read" if unread else ""
            raise DatasetEmpty(f"there is no picture to search{because}", pointer="/retrieval")
        # By reference, so that equal folders make equal files.
        pictures = tuple(sorted(features))
        widths = {np.shape(features[picture]) for picture in pictures}
        if len(widths) > 1 or len(next(iter(widths))) != 1:
            raise BadBackendOutput(f"{checkpoint!r} answered features of the shapes {sorted(widths)}")
        rows = np.empty((len(pictures), *widths.pop()), dtype=np.float32)
        # One by one: all of a large folder in float64 would take twice the room of the index.
        for row, picture in zip(rows, pictures, strict=True):
            row[:] = unit(features[picture])
        description = IndexDescription(
            checkpoint=checkpoint,
            dataset_digest=dataset_digest,
            pictures=pictures,
            width=rows.shape[1],
            unreadable=unread,
        )
        return cls(description, rows)

    def __len__(self) -> int:
        return len(self.description.pictures)

    def require(self, *, checkpoint: str, dataset_digest: str) -> None:
        """Refuse to be searched for another CLIP or another state of the dataset.

        Raises:
            InvalidRequest: it is of another one; the detail says which.
        """
        made = self.description
        if made.checkpoint != checkpoint:
            raise InvalidRequest(
                f"the index is of CLIP {made.checkpoint!r}, and pictures are searched by {checkpoint!r}: "
                f"their features do not compare",
                pointer="/retrieval",
            )
        if made.dataset_digest != dataset_digest:
            raise InvalidRequest(
                f"the dataset has changed since it was indexed: its digest was {made.dataset_digest!r} and "
                f"is {dataset_digest!r}",
                pointer="/retrieval",
            )

    def nearest(self, query: ArrayLike, count: int) -> list[FoundPicture]:
        """The ``count`` pictures of the largest cosine with ``query`` (D), or all where there are fewer.

        Those within 1e-6 of each other come in the order of their references.

        Raises:
            InvalidRequest: ``count`` is below 1.
            BadBackendOutput: the query has another width.
            NumericalFailure: it is zero or not finite.
        """
        if count < 1:
            raise InvalidRequest(f"at least one picture is wanted, not {count}")
        if np.shape(query) != (self.description.width,):
            raise BadBackendOutput(
                f"a query of shape {np.shape(query)} is asked of features of {self.description.width} numbers"
            )
        wanted = unit(query)
        asked = wanted.astype(np.float32)[None]
        similarities, _ = self._index.search(asked, min(count, len(self)))
        # All that could be as near as the last of them: which of equals the library names is its own affair.
        _, _, rows = self._index.range_search(asked, float(similarities[0, -1]) - _SLACK)
        # Row by row in float64, so that equal features have equal cosines wherever they stand.
        exact = (self._features[rows].astype(np.float64) * wanted).sum(axis=1)
        near = sorted(
            (-round(float(value), _DECIMALS), self.description.pictures[row])
            for value, row in zip(exact, rows.tolist(), strict=True)
        )
        return [FoundPicture(picture, -value) for value, picture in near[:count]]

    def to_bytes(self) -> bytes:
        """Return the index file: a line of JSON, then the features (N, D) as little-endian float32."""
        # Not the library's own format: that one is read by native code, which trusts it.
        header = self.description.model_dump_json().encode()
        return header + _END_OF_HEADER + self._features.astype(_STORED).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> PictureIndex:
        """Read an index file.

        Raises:
            ArtifactCorrupt: it is none.
        """
        header, _, body = data.partition(_END_OF_HEADER)
        try:
            description = IndexDescription.model_validate_json(header)
        except ValidationError as error:
            raise ArtifactCorrupt("these bytes are no index of pictures") from error
        shape = (len(description.pictures), description.width)
        if len(body) != shape[0] * shape[1] * _STORED.itemsize:
            raise ArtifactCorrupt(f"an index of {shape[0]} pictures has {len(body)} bytes of features")
        return cls(description, np.frombuffer(body, dtype=_STORED).reshape(shape).astype(np.float32))
