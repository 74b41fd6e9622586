"""The mark of synthetic media, which every image made by Faultline carries when it leaves."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from faultline_core.images.codecs import XMP_KEYWORD

DIGITAL_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's term for an edit of a photograph by a trained model."""

GENERATED_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""IPTC's term for an image that a trained model made from words and noise alone."""

NAMESPACE = "urn:faultline:provenance"
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
    named = "".join(f" faultline:{name}={quoteattr(value)}" for name, value in marks.items())
    return _XMP.format(source_type=source_type, more=f' xmlns:faultline="{NAMESPACE}"{named}')
