"""Pictures on their way out: PNG, with the mark of synthetic media on all that Faultline made."""

from __future__ import annotations

from faultline_core.blobs import BlobStore
from faultline_core.errors import ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from faultline_core.images import XMP_KEYWORD, decode_image, encode_png
from faultline_gateway.ledger import Ledger

DIGITAL_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's word for an edit of a photograph by a trained model."""

_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    f'Iptc4xmpExt:DigitalSourceType="{DIGITAL_SOURCE_TYPE}"/>'
    "</rdf:RDF></x:xmpmeta>"
)


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
    synthetic = {"synthetic": "true", "artifact": ref, XMP_KEYWORD: _XMP}
    return encode_png(pixels, text={} if ledger.is_source_image(ref) else synthetic)
