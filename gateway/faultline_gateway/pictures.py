"""Pictures on their way out: PNG, with the mark of synthetic media on all that Faultline made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from faultline_core.contract.editor import GENERATED_KIND
from faultline_core.errors import ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from faultline_core.images import decode_image, encode_png
from faultline_gateway.ledger import Ledger
from faultline_gateway.marks import DIGITAL_SOURCE_TYPE, GENERATED_SOURCE_TYPE, synthetic_marks
from faultline_gateway.workflows.attempt import Store


class RememberingStore(Store, Protocol):
    """A store that also knows how pictures came to be; `faultline_core.blobs.BlobStore` is one.

    made_of_words = store.recall(GENERATED_KIND, ref) is not None
    """

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob remembered for ``key``, or None."""
        ...


def png_of(ref: str, store: RememberingStore, ledger: Ledger) -> bytes:
    """Return the stored picture ``ref`` as PNG; its pixels are those that were scored.

    Raises:
        ArtifactMissing: nothing is stored under ``ref``, or no picture.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    # Whatever nobody brought was made here: a kind of picture added later is marked without being named.
    if ledger.is_source_image(ref):
        return marked_png(ref, store, {})
    of_words = store.recall(GENERATED_KIND, ref) is not None
    source_type = GENERATED_SOURCE_TYPE if of_words else DIGITAL_SOURCE_TYPE
    return marked_png(ref, store, synthetic_marks(source_type, artifact=ref))


def marked_png(ref: str, store: Store, marks: Mapping[str, str]) -> bytes:
    """Return the stored picture ``ref`` as PNG carrying ``marks``; raises as `png_of` does."""
    data = store.get(ref)
    try:
        pixels = decode_image(data)
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the artifact {ref!r} is no picture") from error
    return encode_png(pixels, text=marks)
