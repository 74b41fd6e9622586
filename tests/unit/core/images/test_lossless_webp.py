"""The groups of Huffman codes of a lossless WebP are counted before it is decoded, wherever they are."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterpose_core.errors import ImageTooLarge, ImageUndecodable
from counterpose_core.images import lossless_webp
from counterpose_core.images.codecs import decode_image
from counterpose_core.images.lossless_webp import MAX_BLOCKS, MAX_GROUPS, check_groups, most_groups
from fakes.webp import groups_of, indexed, packed, predicted, riff, webp_of_groups

SIDE = 420
"""Pixels of a side, 105 blocks of which are 11,025 groups."""


def photograph(side: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Waves, noise and flat areas: something for each of an encoder's transforms."""
    down, across = np.mgrid[:side, :side]
    waves = [128 + 100 * np.sin(across / 17 + down / 23), 128 + 90 * np.cos(across / 31), across * down % 256]
    noise = np.random.default_rng(seed).normal(0, 6, (side, side, 3))
    image = np.clip(np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)
    image[: side // 3] = image[down[: side // 3] // 9, across[: side // 3] // 50]
    return image


def saved(image: Image.Image, **options: object) -> bytes:
    written = io.BytesIO()
    image.save(written, "WEBP", **options)
    return written.getvalue()


def lossy_with_alpha(alpha: bytes) -> bytes:
    """A lossy WebP, its alpha in place of its own."""
    lossy = saved(Image.new("RGB", (SIDE, SIDE)))[12:]
    size = 2 * (SIDE - 1).to_bytes(3, "little")
    return riff((b"VP8X", b"\x10\0\0\0" + size), (b"ALPH", alpha), (lossy[:4], lossy[8:]))


def in_a_frame(image: bytes) -> bytes:
    """An animation of one frame, which is read as a still image."""
    size = 2 * (SIDE - 1).to_bytes(3, "little")
    frame = bytes(6) + size + bytes(4) + image[12:]
    return riff((b"VP8X", b"\x02\0\0\0" + size), (b"ANIM", bytes(6)), (b"ANMF", frame))


PLACES: dict[str, Callable[[int], bytes]] = {
    "as they are": lambda groups: webp_of_groups(SIDE, groups),
    "behind a predictor": lambda groups: webp_of_groups(SIDE, groups, predicted(SIDE) + "0"),
    "behind a table of colours": lambda groups: webp_of_groups(SIDE, groups, indexed(200) + "0"),
    "behind all transforms": lambda groups: webp_of_groups(
        SIDE, groups, predicted(SIDE) + "1" + "01" + indexed(17) + "0"
    ),
    # Of 141 x 71 blocks; less one pixel across there are 9,870.
    "behind a table of few colours": lambda groups: webp_of_groups(561, groups, indexed(11) + "0", 2),
    "in the alpha": lambda groups: lossy_with_alpha(b"\x01" + packed(groups_of(SIDE, groups))),
    "in a frame": lambda groups: in_a_frame(webp_of_groups(SIDE, groups)),
    "behind chunks of no kind": lambda groups: riff((b"abcd", b"x"), *still(webp_of_groups(SIDE, groups))),
}


def still(image: bytes) -> list[tuple[bytes, bytes]]:
    return [(image[12:16], image[20:])]


@pytest.mark.fault("B65")
@pytest.mark.parametrize("place", PLACES)
def test_groups_are_counted_wherever_they_are(place: str) -> None:
    check_groups(PLACES[place](MAX_GROUPS))
    with pytest.raises(ImageTooLarge, match=r"has 10,001 groups .* more than 10,000; save it as a PNG"):
        check_groups(PLACES[place](MAX_GROUPS + 1))


@pytest.mark.parametrize("place", [place for place in PLACES if place != "behind chunks of no kind"])
def test_a_decoder_reads_those_that_are_counted(place: str) -> None:
    """Else what is counted would be no WebP, and the test above would hold of nothing."""
    assert decode_image(PLACES[place](MAX_GROUPS)).shape[:2] in {(SIDE, SIDE), (561, 561)}


@pytest.mark.fault("B65")
def test_many_blocks_are_refused_and_as_many_as_may_be_are_no_long_work() -> None:
    side = 4 * int((MAX_BLOCKS / 2) ** 0.5)
    began = time.process_time()
    check_groups(webp_of_groups(side, 2, predicted(side) + "0"))
    # A tracer, as `make coverage` has, makes each line several times as long.
    assert time.process_time() - began < (2.0 if sys.gettrace() is None else 10.0)
    with pytest.raises(ImageTooLarge, match="in more than 262,144 blocks of pixels"):
        check_groups(webp_of_groups(side + 4, 2, predicted(side + 4) + "0"))


@pytest.mark.parametrize("method", [0, 2, 4, 6])
@pytest.mark.parametrize("kind", ["photograph", "palette", "grey", "alpha", "lossy with alpha"])
def test_an_encoders_files_are_read(method: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small files are not read at all.
    monkeypatch.setattr(lossless_webp, "MAX_GROUPS", 64)
    pixels = photograph(150)
    image = Image.fromarray(pixels)
    if kind == "palette":
        image = image.quantize(11).convert("RGB")
    elif kind == "grey":
        image = image.convert("L").convert("RGB")
    elif kind.endswith("alpha"):
        image.putalpha(Image.fromarray(pixels[..., 1]))
    for quality in (0, 100):
        data = saved(image, lossless=kind != "lossy with alpha", method=method, quality=quality)
        check_groups(data)
        if not kind.endswith("alpha"):
            np.testing.assert_array_equal(decode_image(data), np.asarray(image))


@pytest.mark.parametrize("seed", range(8))
def test_what_a_decoder_reads_is_not_called_damaged(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of the codes are flipped: who reads other codes than the decoder does would let groups by."""
    monkeypatch.setattr(lossless_webp, "MAX_GROUPS", 1)
    data = saved(Image.fromarray(photograph(60, seed)), lossless=True, method=seed % 7, quality=100)
    draws, read = np.random.default_rng(seed), 0
    for _ in range(250):
        flipped = bytearray(data)
        flipped[int(draws.integers(25, 25 + min(300, len(data) - 25)))] ^= 1 << int(draws.integers(8))
        try:
            Image.open(io.BytesIO(flipped)).load()
        except OSError:
            continue
        read += 1
        try:
            check_groups(bytes(flipped))
        except ImageTooLarge:
            continue
    assert read


def test_files_without_their_end_are_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lossless_webp, "MAX_GROUPS", 1)
    data = webp_of_groups(SIDE, MAX_GROUPS)
    for end in (30, 100, 5000):
        with pytest.raises(ImageUndecodable, match="damaged or cut off"):
            check_groups(data[:end])


def test_groups_are_expected_of_lossless_webps_alone() -> None:
    data = webp_of_groups(64, 200)
    assert decode_image(data).tolist() == decode_image(webp_of_groups(64, 1)).tolist()
    assert most_groups(data, 64 * 64) == 256
    assert most_groups(webp_of_groups(1000, 62_500), 1_000_000) == MAX_GROUPS
    flat = Image.new("RGB", (64, 64))
    assert most_groups(saved(flat), 64 * 64) == 0
    written = io.BytesIO()
    flat.save(written, "PNG")
    assert most_groups(written.getvalue(), 64 * 64) == 0
    # The alpha of a lossy one is lossless.
    assert most_groups(lossy_with_alpha(bytes(400)), 64 * 64) > 100
