"""Pixels in work: large images wait for each other, small ones and whoever holds one already do not."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

import numpy as np
import pytest
from PIL import Image

from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.errors import PayloadTooLarge
from counterpose_core.images.codecs import encode_raw, pixel_count
from counterpose_gateway.images import pixels
from counterpose_gateway.images.pixels import SMALL, PixelRoom, require_few_pixels
from fakes.webp import webp_of_groups


def photograph(side: int, form: str = "PNG") -> bytes:
    """A file of a few hundred bytes that is a large image."""
    written = io.BytesIO()
    Image.new("RGB", (side, side), (10, 200, 30)).save(written, form, lossless=True)
    return written.getvalue()


LARGE = photograph(1500)
"""2.25 megapixels."""


@pytest.mark.parametrize("form", ["WEBP", "PNG", "JPEG"])
def test_pixels_are_counted_by_the_header(form: str) -> None:
    assert pixel_count(photograph(1500, form)) == 2_250_000
    assert pixel_count(photograph(1500, form)[:8]) == 0


def test_a_raw_image_tells_its_pixels_and_damage_none() -> None:
    raw = encode_raw(np.zeros((3, 5, 3), dtype=np.uint8))
    assert pixel_count(raw) == 15
    assert pixel_count(raw[:9]) == pixel_count(b"") == pixel_count(b"no image") == 0


def test_a_large_image_waits_until_there_is_room_and_a_small_one_for_nothing() -> None:
    room, began = PixelRoom(4_000_000), Event()

    def work() -> None:
        with room.held(LARGE):
            began.set()

    with ThreadPoolExecutor(2) as threads:
        with room.held(LARGE):
            waits = threads.submit(work)
            with room.held(photograph(100)):
                assert room.now == 2_250_000
            assert not began.wait(0.05)
        waits.result(100)
    assert (began.is_set(), room.now) == (True, 0)


def test_an_image_larger_than_the_room_is_worked_on_by_itself_and_a_fault_gives_it_back() -> None:
    room = PixelRoom(SMALL)
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"), room.held(LARGE):
            raise ValueError("damaged")
    assert room.now == 0


@pytest.mark.fault("B65")
def test_a_webp_counts_what_its_groups_of_codes_may_take() -> None:
    """One of a megapixel and 281 kB may take 56 MB, as a photograph of 3.5 megapixels would."""
    room = PixelRoom()
    with room.held(webp_of_groups(1000, 62_500)):
        assert room.now == 1_000_000 + 350 * 10_000
    # Small ones wait for none, whatever their format.
    with room.held(webp_of_groups(200, 2500)), room.held(photograph(900)):
        assert room.now == 0


@pytest.mark.fault("B65")
def test_who_holds_an_image_waits_for_no_second_one() -> None:
    room = PixelRoom(4_000_000)
    # Two that each read two would wait for each other for ever.
    with ExitStack() as held:

        def stored(ref: str, before: Callable[[bytes], object] | None = None) -> bytes:
            assert before is not None
            before(LARGE)
            assert room.now > 0, "there is room before the image is unpacked"
            return LARGE

        read = held.enter_context(room.reading(stored))
        assert read("first") == read("second") == LARGE
        assert room.now == 4_500_000
    assert room.now == 0


def upload(data: bytes, mask: bytes | None = None) -> SourceUpload:
    masked = None if mask is None else base64.b64encode(mask).decode()
    return SourceUpload(
        filename="a.png", label="sled", content_base64=base64.b64encode(data).decode(), mask_base64=masked
    )


@pytest.mark.fault("B65")
def test_the_images_of_a_request_have_so_many_pixels_together_and_one_may_have_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pixels, "MOST_OF_A_REQUEST", 5_000_000)
    require_few_pixels([upload(LARGE)] * 2)
    require_few_pixels([upload(photograph(2500))])
    require_few_pixels([upload(LARGE), upload(b"no image"), SourceUpload.model_construct(
        filename="b.png", label="sled", content_base64="*", mask_base64=None)])  # fmt: skip
    with pytest.raises(PayloadTooLarge, match=r"first 3 images have 6,750,000 pixels as .*5,000,000;"):
        require_few_pixels([upload(LARGE)] * 3)
    with pytest.raises(PayloadTooLarge, match="first 2 images have 6,750,000"):
        require_few_pixels([upload(LARGE, mask=LARGE), upload(LARGE)])
