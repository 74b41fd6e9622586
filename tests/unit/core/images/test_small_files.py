"""Small files of each format that would become long work or much memory: refused, or read in no time."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from counterpose_core.errors import ImageTooLarge, ImageUndecodable, InvalidRequest, UnsupportedMedia
from counterpose_core.images import masks
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, decode_image, encode_raw, pixel_count
from counterpose_core.images.file_structure import MAX_SEGMENTS, SIGNATURE, check_scans
from counterpose_core.images.masks import alpha_mask, file_mask, outline_mask
from fakes.bad_files import chunk
from fakes.webp import riff, webp_of_groups

MOST_SECONDS = 1.0
"""Of a processor; the least that one of these took before it was refused is 2.2."""


def saved(form: str, side: int = 64, **options: object) -> bytes:
    written = io.BytesIO()
    Image.new("RGB" if form != "JPEG" else "L", (side, side), 90).save(written, form, **options)
    return written.getvalue()


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def exif_that_shares(tags: int, size: int) -> bytes:
    """EXIF data whose tags name the same bytes, so that each tag has a copy of them."""
    behind = 8 + 2 + 12 * tags + 4
    entries = b"".join(struct.pack("<HHII", tag, 7, size, behind) for tag in range(tags))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", tags) + entries + bytes(4 + size)


def scans_behind(marker: bytes) -> bytes:
    """A progressive JPEG of 4 megapixels, whose last scan is repeated behind a marker without length."""
    jpeg = saved("JPEG", 2000, progressive=True)
    start = jpeg.rfind(b"\xff\xda")
    return jpeg[:-2] + (marker + jpeg[start:-2]) * 3000 + jpeg[-2:]


def in_segments(kind: int, content: bytes, times: int) -> bytes:
    jpeg = saved("JPEG")
    return jpeg[:2] + segment(kind, content) * times + jpeg[2:]


def in_chunks(*more: bytes) -> bytes:
    png = saved("PNG")
    return png[:33] + b"".join(more) + png[33:]


def pixels_of_a_bomb() -> bytes:
    """A PNG whose pixels go on inflating behind its last row."""
    head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(64 * 65 + 100_000_000), 1)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def exif_in(form: str) -> bytes:
    exif = exif_that_shares(60_000, 1_000_000)
    if form == "JPEG":
        pieces = [exif[start : start + 60_000] for start in range(0, len(exif), 60_000)]
        return saved("JPEG")[:2] + b"".join(segment(0xE1, b"Exif\0\0" + each) for each in pieces) + \
            saved("JPEG")[2:]  # fmt: skip
    return in_chunks(chunk(b"eXIf", exif)) if form == "PNG" else saved("WEBP", exif=exif)


def extended(side: int, flags: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A WebP in the extended format."""
    sides = (side - 1).to_bytes(3, "little")
    return riff((b"VP8X", bytes([flags, 0, 0, 0]) + 2 * sides), *chunks)


PLAIN = saved("WEBP")[12:]
FRAME = bytes(6) + 2 * (63).to_bytes(3, "little") + bytes(4) + PLAIN
LOSSY = (PLAIN[:4], PLAIN[8:])
MANY_TEXTS = b"tiff:Orientation=" * 3500

SMALL_FILES: dict[str, Callable[[], bytes]] = {
    "JPEG: scans behind TEM": lambda: scans_behind(b"\xff\x01"),
    "JPEG: scans behind fill bytes and TEM": lambda: scans_behind(b"\xff\xff\xff\x01"),
    "JPEG: scans behind a restart": lambda: scans_behind(b"\xff\xd0"),
    "JPEG: scans behind another start": lambda: scans_behind(b"\xff\xd8"),
    "JPEG: EXIF data of 19,000 segments": lambda: in_segments(0xE1, b"Exif\0\0" + bytes(900), 19_000),
    "JPEG: 300,000 comments": lambda: in_segments(0xFE, b"", 300_000),
    "JPEG: frames": lambda: in_segments(0xC0, b"\x08\0\x40\0\x40\x01\x01\x11\0", 300_000),
    "JPEG: resources of Photoshop": lambda: in_segments(
        0xED, b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0\0\0\0\0" * 5000, 80
    ),
    "JPEG: tags that share bytes": lambda: exif_in("JPEG"),
    "JPEG: texts of XMP": lambda: in_segments(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + MANY_TEXTS, 200),
    "PNG: profiles": lambda: in_chunks(chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1_000_000))) * 1500),
    "PNG: texts": lambda: in_chunks(chunk(b"zTXt", b"t\0\0" + zlib.compress(bytes(1_000_000))) * 3000),
    "PNG: 1,200,000 chunks": lambda: in_chunks(chunk(b"teXt", b"") * 1_200_000),
    "PNG: texts compressed by another flag": lambda: in_chunks(
        *(chunk(b"iTXt", b"%d\0\2\0\0\0" % number + zlib.compress(bytes(1_000_000))) for number in range(70))
    ),
    "PNG: pixels behind the last row": pixels_of_a_bomb,
    "PNG: tags that share bytes": lambda: exif_in("PNG"),
    "WebP: tags that share bytes": lambda: exif_in("WEBP"),
    "WebP: chunks of no kind": lambda: extended(64, 0, LOSSY, *[(b"abcd", b"")] * 300_000),
    "WebP: frames": lambda: extended(64, 2, (b"ANIM", bytes(6)), *[(b"ANMF", FRAME)] * 50_000),
    "WebP: groups of codes": lambda: webp_of_groups(1000, 62_500),
    "WebP: a canvas around a small frame": lambda: extended(3999, 2, (b"ANIM", bytes(6)), (b"ANMF", FRAME)),
}
"""Files of at most 18 MB, by their format and by what there is much of."""


@pytest.mark.fault("B65")
@pytest.mark.filterwarnings("ignore:Tag data larger than file")
@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_small_file_is_no_long_work(name: str) -> None:
    data = SMALL_FILES[name]()
    assert len(data) < 18_000_000
    for read in (pixel_count, decode_image):
        began = time.process_time()
        with suppress(ImageUndecodable, ImageTooLarge, UnsupportedMedia):
            read(data)
        assert time.process_time() - began < MOST_SECONDS, read.__name__


def progressive(colours: str) -> bytearray:
    """The head of a progressive JPEG of 64 megapixels, every colour at full size."""
    written = io.BytesIO()
    Image.new(colours, (64, 64), 90).save(written, "JPEG", progressive=True, subsampling=0)
    data = bytearray(written.getvalue())
    frame = data.index(b"\xff\xc2")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 8000, 8000)
    return data


@pytest.mark.fault("B65")
def test_a_progressive_jpeg_of_much_colour_is_refused_before_its_numbers_are_kept() -> None:
    """A decoder holds 426 MB of it."""
    data = progressive("RGB")
    assert pixel_count(bytes(data)) == 64_000_000
    with pytest.raises(ImageTooLarge, match="192,000,000 coefficients in several scans, more than 100,000"):
        check_scans(bytes(data))
    with pytest.raises(ImageTooLarge):
        decode_image(bytes(data), max_pixels=LARGEST_PHOTOGRAPH)
    # Several scans are kept though none is progressive; a second frame of few pixels does not hide the first.
    frame = data.index(b"\xff\xc2")
    data[frame + 1] = 0xC0
    with pytest.raises(ImageTooLarge):
        check_scans(bytes(data + segment(0xC0, b"\x08\0\x40\0\x40\x01\x01\x11\0")))
    # Of a single scan, rows are decoded one after another.
    scan = data.index(b"\xff\xda")
    check_scans(bytes(data[: data.index(b"\xff\xda", scan + 2)]))
    check_scans(bytes(progressive("L")))


@pytest.mark.fault("B65")
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_mask_of_another_size_is_refused_before_it_is_decoded(
    form: str, orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A palette of 64 megapixels in 8 kB took 426 MB beside an image of 8 x 8, which waits for none."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    mask = saved(form, 200, exif=exif)
    with monkeypatch.context() as patched:
        patched.setattr(masks, "decode_image", lambda *_, **__: pytest.fail("it is decoded"))
        for image in (
            saved("PNG", 8),
            saved("JPEG", 199),
            saved("WEBP", 201),
            encode_raw(np.zeros((8, 8, 3), np.uint8)),
        ):
            with pytest.raises(InvalidRequest, match="200 x 200 pixels, but its image "):
                file_mask(mask, image)
    # Damage is named as before.
    with pytest.raises(ImageUndecodable):
        file_mask(mask[:40], saved("PNG", 200))


@pytest.mark.parametrize("mode", ["LA", "RGBA", "P", "RGB"])
def test_an_alpha_channel_of_many_rows_is_read_as_one_of_few(mode: str) -> None:
    opaque = np.random.default_rng(0).integers(0, 2, (600, 9), dtype=np.uint8) * 255
    grey = np.full_like(opaque, 7)
    options: dict[str, object] = {}
    if mode in ("LA", "RGBA"):
        layers = (grey, opaque) if mode == "LA" else (grey, grey, grey, opaque)
        image = Image.merge(mode, [Image.fromarray(each) for each in layers])
    elif mode == "P":
        image, options = Image.fromarray(opaque // 255).convert("P"), {"transparency": 0}
        image.putdata((opaque // 255).reshape(-1).tolist())
    else:
        image = Image.fromarray(np.repeat(opaque[:, :, None], 3, axis=2))
        options = {"transparency": (0, 0, 0)}
    written = io.BytesIO()
    image.save(written, "PNG", **options)
    found = alpha_mask(written.getvalue())
    assert found is not None
    np.testing.assert_array_equal(found, opaque)


OUTLINES: dict[str, list[list[float]]] = {
    "tall edges": [[c for n in range(9000) for c in (4000.0 + n % 7, (n % 2) * 8000.0)]] * 8,
    "many polygons of the whole": [[0, 0, 8000, 0, 8000, 8000, 0, 8000]] * 1000,
    "many tall triangles": [[0, 0, 1, 8000, 2, 0]] * 1000,
    "edges to and fro across": [[c for n in range(9000) for c in ((n % 2) * 8000.0, (n % 3) * 4000.0)]],
}


@pytest.mark.fault("B65")
@pytest.mark.parametrize("name", OUTLINES)
def test_an_outline_is_no_long_work(name: str) -> None:
    image = in_chunks()
    image = image[:16] + struct.pack(">II", 8000, 8000) + image[24:29] + struct.pack(
        ">I", zlib.crc32(image[12:16] + struct.pack(">II", 8000, 8000) + image[24:29])
    ) + image[33:]  # fmt: skip
    began = time.process_time()
    with suppress(InvalidRequest):
        outline_mask(OUTLINES[name], (8000, 8000), image)
    assert time.process_time() - began < 2 * MOST_SECONDS


def test_a_photograph_of_hundreds_of_segments_is_read() -> None:
    data = in_segments(0xEB, b"where the image is from", MAX_SEGMENTS - 50)
    assert decode_image(data, max_pixels=LARGEST_PHOTOGRAPH).shape == (64, 64, 3)
