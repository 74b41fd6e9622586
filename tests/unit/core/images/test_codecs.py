"""Image decoding: accepted images are converted deterministically; all others have a specific error."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from counterpose_core.errors import CounterposeError, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from counterpose_core.images import codecs
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, Pixels, decode_image, encode_png, encode_raw

GREY = 128


def noise(height: int = 5, width: int = 7) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(image: Image.Image, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=format, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + body
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(body)) + chunk
    return data + struct.pack(">I", zlib.crc32(chunk)) + b"\x00\x00\x00\x00IDAT\x35\xaf\x06\x1e"


@pytest.mark.parametrize("encode", [encode_raw, encode_png])
def test_pixels_survive_our_own_formats(encode: object) -> None:
    assert callable(encode)
    np.testing.assert_array_equal(decode_image(encode(noise())), noise())


def test_lossless_webp_and_png_decode_to_the_same_pixels() -> None:
    image = Image.fromarray(noise())
    np.testing.assert_array_equal(decode_image(saved(image, "WEBP", lossless=True)), noise())
    np.testing.assert_array_equal(decode_image(saved(image, "PNG")), noise())


def test_a_single_colour_jpeg_keeps_its_colour() -> None:
    flat = Image.new("RGB", (16, 8), (GREY, GREY, GREY))
    assert decode_image(saved(flat, "JPEG")).shape == (8, 16, 3)
    assert np.all(np.abs(decode_image(saved(flat, "JPEG")).astype(int) - GREY) <= 2)


def test_text_chunks_leave_pixels_unchanged() -> None:
    png = encode_png(noise(), text={"synthetic": "true", "XML:com.adobe.xmp": "<x/>", "note": "größer 雪"})
    with Image.open(io.BytesIO(png)) as image:
        assert isinstance(image, PngImagePlugin.PngImageFile)
        assert image.text == {"synthetic": "true", "XML:com.adobe.xmp": "<x/>", "note": "größer 雪"}
    np.testing.assert_array_equal(decode_image(png), noise())


@pytest.mark.paper("LANCE-D-bad-image")
@pytest.mark.fault("B13")
@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, (255, 255, 255)),
        ("L", GREY, (GREY, GREY, GREY)),
        ("LA", (0, 0), (255, 255, 255)),
        ("LA", (GREY, 255), (GREY, GREY, GREY)),
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), (10, 20, 30)),
        ("I;16", 0xFFFF, (255, 255, 255)),
        ("I;16", GREY * 257, (GREY, GREY, GREY)),
    ],
)
def test_every_png_mode_is_decoded_to_rgb(
    mode: str, colour: float | tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    pixels = decode_image(saved(Image.new(mode, (3, 2), colour), "PNG"))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (2, 3, 3)
    assert {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()} == {expected}


@pytest.mark.fault("B13")
def test_transparent_palette_images_are_composited_on_white() -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    pixels = decode_image(saved(image, "PNG", transparency=0))
    assert pixels.tolist() == [[[255, 255, 255], [40, 50, 60]]]


@pytest.mark.paper("LANCE-D-bad-image")
@pytest.mark.fault("B13")
def test_cmyk_jpegs_are_decoded_deterministically() -> None:
    data = saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")
    red = decode_image(data)
    np.testing.assert_array_equal(red, decode_image(data))
    assert red[0, 0, 0] > 200
    assert red[0, 0, 1] < 60


@pytest.mark.fault("B14")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_exif_rotation_is_applied_once(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.fromarray(noise()), "PNG", exif=exif)
    upright = {
        1: noise(), 2: noise()[:, ::-1], 3: noise()[::-1, ::-1], 4: noise()[::-1],
        5: noise().transpose(1, 0, 2), 6: np.rot90(noise(), -1), 7: np.rot90(noise(), 2).transpose(1, 0, 2),
        8: np.rot90(noise()),
    }  # fmt: skip
    np.testing.assert_array_equal(decode_image(data), upright[orientation])


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("exif", [b"II*\x00\xff\xff\xff\xff", b"no tags at all", b"II*\x00\x08\x00"])
def test_broken_exif_is_ignored(exif: bytes) -> None:
    data = saved(Image.fromarray(noise()), "PNG", exif=b"Exif\x00\x00" + exif)
    np.testing.assert_array_equal(decode_image(data), noise())


def test_a_phone_photo_with_extra_frames_is_a_still_image() -> None:
    frames = [Image.fromarray(noise(16, 16)), Image.fromarray(noise(16, 16))]
    data = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert decode_image(data).shape == (16, 16, 3)


@pytest.mark.fault("B10")
@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_animations_are_refused(format: str) -> None:
    frames = [Image.fromarray(noise()), Image.fromarray(noise()[::-1])]
    data = saved(frames[0], format, save_all=True, append_images=frames[1:], duration=100)
    with pytest.raises(UnsupportedMedia, match="animated"):
        decode_image(data)


@pytest.mark.parametrize("format", ["GIF", "TIFF", "BMP", "ICO", "PDF", "EPS", "JPEG2000"])
def test_other_formats_are_refused_by_content_and_not_by_name(format: str) -> None:
    with pytest.raises(UnsupportedMedia):
        decode_image(saved(Image.fromarray(noise(32, 32)), format))


@pytest.mark.parametrize("data", [b"<svg width='9'/>", b"PK\x03\x04zip", b"  <?xml?>"])
def test_documents_are_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        decode_image(data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"no image", bytes(range(256)), b"\x89PNG\r\n\x1a\n"])
def test_non_image_bytes_are_undecodable(data: bytes) -> None:
    with pytest.raises(ImageUndecodable, match=str(len(data))):
        decode_image(data)


@pytest.mark.fault("B4")
@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_an_image_truncated_anywhere_is_undecodable(format: str) -> None:
    data = saved(Image.fromarray(noise(48, 48)), format)
    for end in range(12, len(data) - 20, max(1, len(data) // 40)):
        with pytest.raises(ImageUndecodable):
            decode_image(data[:end])


def test_a_bad_checksum_is_undecodable() -> None:
    data = bytearray(encode_png(noise(32, 32)))
    data[data.index(b"IDAT") + 12] ^= 0xFF
    with pytest.raises(ImageUndecodable):
        decode_image(bytes(data))


@pytest.mark.filterwarnings("ignore")
def test_flipped_bytes_only_raise_documented_errors() -> None:
    generator = np.random.default_rng(1)
    for format in ("PNG", "JPEG", "WEBP"):
        whole = saved(Image.fromarray(noise(24, 24)), format)
        for _ in range(60):
            data = bytearray(whole)
            for index in generator.integers(0, len(data), 4):
                data[index] = int(generator.integers(0, 256))
            try:
                assert decode_image(bytes(data), max_pixels=10_000).dtype == np.uint8
            except CounterposeError:
                continue


@pytest.mark.fault("B6")
@pytest.mark.parametrize(("width", "height"), [(4001, 4000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_too_many_pixels_are_refused_before_decoding(width: int, height: int) -> None:
    with pytest.raises(ImageTooLarge, match="pixels"):
        decode_image(png_header(width, height))


def test_the_caller_sets_the_pixel_limit() -> None:
    assert decode_image(encode_png(noise(4, 4)), max_pixels=16).shape == (4, 4, 3)
    for encode in (encode_png, encode_raw):
        with pytest.raises(ImageTooLarge):
            decode_image(encode(noise(4, 5)), max_pixels=16)


def gradient(width: int, height: int) -> Image.Image:
    """Red grows to the right and green downwards, so that a turn or a shift shows."""
    across = np.linspace(0, 255, width)[None, :].repeat(height, axis=0)
    down = np.linspace(0, 255, height)[:, None].repeat(width, axis=1)
    return Image.fromarray(np.stack([across, down, np.full_like(down, 60)], axis=2).astype(np.uint8))


def turned(format: str, image: Image.Image) -> bytes:
    exif = Image.Exif()
    # Held so that its right side was down.
    exif[0x0112] = 6
    return saved(image, format, exif=exif)


MODES: dict[str, Callable[[Image.Image], bytes]] = {
    "rgb.jpg": lambda image: saved(image, "JPEG", quality=95),
    "progressive.jpg": lambda image: saved(image, "JPEG", quality=95, progressive=True),
    "grey.jpg": lambda image: saved(image.convert("L"), "JPEG", quality=95),
    "cmyk.jpg": lambda image: saved(image.convert("CMYK"), "JPEG", quality=95),
    "turned.jpg": lambda image: turned("JPEG", image),
    "rgb.png": lambda image: saved(image, "PNG"),
    "turned.png": lambda image: turned("PNG", image),
    "rgba.png": lambda image: saved(image.convert("RGBA"), "PNG"),
    "palette.png": lambda image: saved(image.quantize(256, dither=Image.Dither.NONE), "PNG"),
    "sixteen.png": lambda image: saved(
        Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257), "PNG"
    ),
}
"""How a photograph is written, by the name of its file."""


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(("width", "height"), [(400, 600), (401, 601)])
def test_a_large_photograph_of_any_mode_is_halved_as_it_would_be_reduced_whole(
    name: str, width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = MODES[name](gradient(width, height))
    whole = Image.fromarray(decode_image(data))
    monkeypatch.setattr(codecs, "MAX_PIXELS", 200_000)
    halved = decode_image(data, max_pixels=300_000)
    expected = np.asarray(whole.crop((0, 0, whole.width // 2 * 2, whole.height // 2 * 2)).reduce(2))
    assert halved.shape == expected.shape
    # A JPEG's blocks are transformed at half size.
    most = 6 if name.endswith("jpg") else 1
    np.testing.assert_allclose(halved.astype(int), expected.astype(int), atol=most)


@pytest.mark.parametrize("pixels", [16_000_000, LARGEST_PHOTOGRAPH])
def test_what_is_halved_is_within_the_limit_of_stored_images(pixels: int) -> None:
    side = int(pixels**0.5)
    data = saved(Image.new("L", (side - 1, side + 1)), "PNG")
    height, width, _ = decode_image(data, max_pixels=LARGEST_PHOTOGRAPH).shape
    assert width * height <= codecs.MAX_PIXELS
    with pytest.raises(ImageTooLarge):
        decode_image(png_header(side + 1, side + 1), max_pixels=pixels)


def test_an_ordinary_photograph_keeps_each_pixel_whatever_more_is_let_in() -> None:
    for name, encode in MODES.items():
        data = encode(gradient(80, 60))
        np.testing.assert_array_equal(
            decode_image(data, max_pixels=LARGEST_PHOTOGRAPH), decode_image(data), err_msg=name
        )


def test_a_large_webp_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MAX_PIXELS", 1000)
    with pytest.raises(ImageTooLarge, match="the WebP has 40 x 30 pixels, more than 1000; save it as a JPEG"):
        decode_image(saved(gradient(40, 30), "WEBP"), max_pixels=4000)


def test_a_text_chunk_bomb_is_refused() -> None:
    bomb = zlib.compress(b"\x00" * 50_000_000)
    chunk = b"zTXtnote\x00\x00" + bomb
    length, checksum = struct.pack(">I", len(chunk) - 4), struct.pack(">I", zlib.crc32(chunk))
    png = encode_png(noise())
    with pytest.raises(ImageUndecodable):
        decode_image(png[:33] + length + chunk + checksum + png[33:])


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"\x00",
        lambda raw: raw[:10],
        lambda raw: raw[:6] + struct.pack("<III", 5, 7, 4) + raw[18:],
        lambda raw: raw[:6] + struct.pack("<III", 0, 7, 3),
    ],
)
def test_a_raw_image_whose_header_lies_is_undecodable(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(ImageUndecodable):
        decode_image(damage(encode_raw(noise())))


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8)]
)
def test_only_image_arrays_are_encoded(array: Pixels) -> None:
    for encode in (encode_raw, encode_png):
        with pytest.raises(ValueError, match="uint8"):
            encode(array)


def test_a_decoded_raw_image_is_writable() -> None:
    pixels = decode_image(encode_raw(noise()))
    pixels[0, 0] = 0
    assert pixels[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", ["RGB", "L", "LA", "RGBA", "P", "I;16", "1"])
def test_an_image_of_many_rows_is_decoded_as_one_of_few(mode: str) -> None:
    rows = np.random.default_rng(3).integers(0, 256, (600, 9, 4), dtype=np.uint8)
    if mode == "I;16":
        whole = Image.fromarray(rows[:, :, 0].astype(np.uint16) * 257)
    else:
        whole = Image.fromarray(rows).convert(mode)

    def decoded(image: Image.Image) -> Pixels:
        written = io.BytesIO()
        image.save(written, "PNG", **({"transparency": 3} if mode == "P" else {}))
        return decode_image(written.getvalue())

    parts = [decoded(whole.crop((0, top, 9, top + 50))) for top in range(0, 600, 50)]
    np.testing.assert_array_equal(decoded(whole), np.concatenate(parts))
