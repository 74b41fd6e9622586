"""Pictures on their way out: PNG, with the mark of synthetic media on all that Faultline made."""

from __future__ import annotations

from collections.abc import Mapping

from faultline_core.errors import ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from faultline_core.images import decode_image, encode_png
from faultline_gateway.ledger import Ledger
from faultline_gateway.marks import synthetic_marks
from faultline_gateway.workflows.attempt import Store


def png_of(ref: str, store: Store, ledger: Ledger) -> bytes:
    """Return the stored picture ``ref`` as PNG; its pixels are those that were scored.

    Raises:
        ArtifactMissing: nothing is stored under ``ref``, or no picture.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    # Whatever nobody brought was made here: a kind of picture added later is marked without being named.
    return marked_png(ref, store, {} if ledger.is_source_image(ref) else synthetic_marks(artifact=ref))


def marked_png(ref: str, store: Store, marks: Mapping[str, str]) -> bytes:
    """Return the stored picture ``ref`` as PNG carrying ``marks``; raises as `png_of` does."""
    data = store.get(ref)
    try:
        pixels = decode_image(data)
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the artifact {ref!r} is no picture") from error
    return encode_png(pixels, text=marks)
