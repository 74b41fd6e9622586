"""How many pixels are decoded and encoded at once in this process: further images wait, whoever asks.

A file of a hundred bytes may be an image of 16 megapixels, which takes 400 MB while it is worked on.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Condition, Lock
from typing import Protocol

from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.errors import PayloadTooLarge
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, MAX_PIXELS, pixel_count
from counterpose_core.images.lossless_webp import most_groups

MOST_PIXELS = 8_000_000
"""Pixels that are worked on at once, in all images together; one image may have more, by itself."""

SMALL = 1_000_000
"""Pixels up to which an image waits for none: some megabytes, as many as there are threads."""

_OF_A_GROUP = 350
"""Pixels that take as much memory as the tables of one group of a WebP's codes: 5,600 bytes."""

MOST_OF_A_REQUEST = 40_000_000
"""Pixels of all images of one request: two seconds of a processor. One image may have more, by itself."""


def require_few_pixels(uploads: Sequence[SourceUpload]) -> None:
    """Refuse a request whose images and masks have too many pixels, as stored, before one is decoded.

    Raises:
        PayloadTooLarge: there is more than one image, and more than `MOST_OF_A_REQUEST` pixels.
    """
    total = 0
    for number, upload in enumerate(uploads):
        for file in (upload.content_base64, upload.mask_base64 or ""):
            # What is no base64, or has more than an image may, is refused later, by name and undecoded.
            with suppress(ValueError):
                pixels = pixel_count(base64.b64decode(file))
                # A larger one is halved while it is decoded.
                total += 0 if pixels > LARGEST_PHOTOGRAPH else pixels // (4 if pixels > MAX_PIXELS else 1)
        if number and total > MOST_OF_A_REQUEST:
            raise PayloadTooLarge(
                f"the first {number + 1} images have {total:,} pixels as stored, and those of one request "
                f"may have {MOST_OF_A_REQUEST:,}; send fewer in a request"
            )


class Get(Protocol):
    """Reads a blob, as `counterpose_core.blobs.BlobStore.get` does."""

    def __call__(self, ref: str, before: Callable[[bytes], object] | None = None, /) -> bytes:
        """Return its bytes; ``before`` is given the first that are stored, before the rest is read."""


class PixelRoom:
    """The pixels that threads work on at once, first come first served."""

    def __init__(self, most: int = MOST_PIXELS) -> None:
        self.most, self._now = most, 0
        self._turn, self._changed = Lock(), Condition()

    @property
    def now(self) -> int:
        """The pixels that are worked on."""
        return self._now

    @contextmanager
    def held(self, data: bytes, *, waits: bool = True) -> Iterator[None]:
        """Wait until there is room for the image that begins so, and hold it until the block ends.

        ``waits``: else it is counted at once, for one who holds another image, whom no one may wait for.
        """
        pixels = pixel_count(data)
        pixels += _OF_A_GROUP * most_groups(data, pixels)
        if pixels <= SMALL:
            yield
            return
        if waits:
            with self._turn, self._changed:
                self._changed.wait_for(lambda: not self._now or self._now + pixels <= self.most)
                self._now += pixels
        else:
            with self._changed:
                self._now += pixels
        try:
            yield
        finally:
            with self._changed:
                self._now -= pixels
                self._changed.notify_all()

    @contextmanager
    def reading(self, get: Get) -> Iterator[Callable[[str], bytes]]:
        """Return ``get`` with room for each image from before it is unpacked until the block ends."""
        with ExitStack() as held:
            first = [True]

            def hold(stored: bytes) -> None:
                held.enter_context(self.held(stored, waits=first[0]))
                first[0] = False

            yield lambda ref: get(ref, hold)


PIXELS = PixelRoom()
"""Those of this process."""
