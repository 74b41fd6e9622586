"""Pictures on their way out: PNG, with the mark of synthetic media on all that Faultline made."""

from __future__ import annotations

from faultline_core.blobs import BlobStore
from faultline_core.errors import ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from faultline_core.images import decode_image, encode_png
from faultline_gateway.ledger import Ledger
from faultline_gateway.marks import synthetic_marks


def png_of(ref: str, store: BlobStore, ledger: Ledger) -> bytes:
    """Return the stored picture ``ref`` as PNG; its pixels are those that were scored.

    Raises:
        ArtifactMissing: nothing is stored under ``ref``, or no picture.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    data = store.get(ref)
    try:
        pixels = decode_image(data)
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the artifact {ref!r} is no picture") from error
    # Whatever nobody brought was made here: a kind of picture added later is marked without being named.
    marks = {} if ledger.is_source_image(ref) else synthetic_marks(artifact=ref)
    return encode_png(pixels, text=marks)
