"""Images for users: PNG, with the mark of synthetic media on every image that Counterpose made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from xml.sax.saxutils import quoteattr

from counterpose_core.contract.editor import GENERATED_KIND
from counterpose_core.errors import (
    ArtifactCorrupt,
    ArtifactMissing,
    ImageTooLarge,
    ImageUndecodable,
    UnsupportedMedia,
)
from counterpose_core.image_recipes import digest_of_pixels, shown_image
from counterpose_core.images.codecs import XMP_KEYWORD, encode_png
from counterpose_gateway.images.pixels import PIXELS

if TYPE_CHECKING:
    from counterpose_gateway.ledger.datasets.datasets import Datasets


class RoomyStore(Protocol):
    """A store that tells how an image begins before it reads it, so that it can be made to wait."""

    def get(self, ref: str, before: Callable[[bytes], object] | None = None) -> bytes:
        """Return the verified bytes named ``ref``; ``before`` is given the first that are stored."""


class RememberingStore(RoomyStore, Protocol):
    """A store that also knows how images were made; `counterpose_core.blobs.BlobStore` is one.

    made_of_words = store.recall(GENERATED_KIND, ref) is not None
    """

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob remembered for ``key``, or None."""


def png_of(ref: str, store: RememberingStore, sources: Datasets) -> bytes:
    """Return the stored image ``ref`` as PNG; its pixels are those that were scored.

    Raises:
        ArtifactMissing: nothing is stored under ``ref``, or it is not an image.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    # Asked first: a generated image stays one where it is registered as an image of a dataset.
    of_words = store.recall(GENERATED_KIND, ref) is not None
    # Every image that no user provided was made here: new kinds of images are marked by default.
    if not of_words and sources.is_source_image(ref):
        return marked_png(ref, store, {})
    source_type = GENERATED_SOURCE_TYPE if of_words else DIGITAL_SOURCE_TYPE
    return marked_png(ref, store, synthetic_marks(source_type, artifact=ref))


def marked_png(
    ref: str, store: RoomyStore, marks: Mapping[str, str], pixel_digest: str | None = None
) -> bytes:
    """Return the image ``ref``, stored or by its recipe, as PNG carrying ``marks``; raises as `png_of`.

    ``pixel_digest`` is of the pixels that a recipe made before; others are corrupt.
    """
    with PIXELS.reading(store.get) as read:
        return _marked_png(ref, read, marks, pixel_digest)


def _marked_png(
    ref: str, read: Callable[[str], bytes], marks: Mapping[str, str], pixel_digest: str | None
) -> bytes:
    try:
        pixels = shown_image(ref, read)
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the artifact {ref!r} is not an image; check the digest") from error
    if pixel_digest is not None and pixel_digest != digest_of_pixels(pixels):
        raise ArtifactCorrupt(
            f"the recipe {ref!r} makes another image here than the one that was answered; export where the "
            "libraries are those of the run"
        )
    return encode_png(pixels, text=marks)


DIGITAL_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's term for an edit of a photograph by a trained model."""

OPERATION_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/algorithmicallyEnhanced"
"""A photograph that an operation changed, without any network."""

GENERATED_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""IPTC's term for an image that a trained model made from words and noise alone."""

NAMESPACE = "urn:counterpose:provenance"
"""Of the XMP fields that trace an image: ``synthetic``, ``run``, ``item`` and ``artifact``."""

_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    'Iptc4xmpExt:DigitalSourceType="{source_type}"{more}/>'
    "</rdf:RDF></x:xmpmeta>"
)


def synthetic_marks(source_type: str = DIGITAL_SOURCE_TYPE, /, **provenance: str) -> dict[str, str]:
    """Return the text chunks of an image made here; ``provenance`` traces how it was made.

    The marks are never in the pixels: a watermark would be scored along with the image.
    """
    return {"synthetic": "true", **provenance, XMP_KEYWORD: _XMP.format(source_type=source_type, more="")}


def synthetic_xmp(source_type: str = DIGITAL_SOURCE_TYPE, /, **provenance: str) -> str:
    """Return the same marks as one XMP packet, for formats without text chunks such as WebP."""
    marks = {"synthetic": "true", **provenance}
    named = "".join(f" counterpose:{name}={quoteattr(value)}" for name, value in marks.items())
    return _XMP.format(source_type=source_type, more=f' xmlns:counterpose="{NAMESPACE}"{named}')
