"""How many groups of Huffman codes a lossless WebP has, read from its bit stream before it is decoded.

A decoder builds 5.6 kB of tables for each group, of which a file of 300 kB may name 65,536. The number is the
largest in the entropy image, which follows the images of the transforms (RFC 9649, section 3). Of these, only
the symbols are walked over: copies and cached colours repeat numbers that were written out before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from counterpose_core.errors import ImageTooLarge, ImageUndecodable
from counterpose_core.images.file_structure import MAX_CHUNKS

MAX_GROUPS = 10_000
"""Its common encoder writes at most 2,600; each takes memory as 350 pixels do."""

MAX_BLOCKS = 2**18
"""Of all images of transforms and groups; the largest image in blocks of 16 x 16 pixels has half of it."""

_PREDICTOR, _COLOUR, _INDEXING = 0, 1, 3
_SMALLEST_BLOCK = 16
"""Pixels."""
_SMALLEST_GROUP = 4
"""Bytes in the file, rounded up."""
_BYTE, _DISTANCES, _LENGTHS = 256, 40, 24
_LONGEST = 15
"""Bits of a symbol."""
_ORDER = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
"""In which the lengths of the code of lengths are written."""
_REPEATS = {16: (2, 3), 17: (3, 3), 18: (7, 11)}
"""Bits and least number of the repetitions of a length: the last one, and twice of none."""
_CANVAS, _FRAME, _LOSSY_SIDES = 12, 16, 6


def most_groups(data: bytes, pixels: int) -> int:
    """Return the most groups of codes that a file of so many pixels may have, without reading its bits."""
    lossless = data[8:12] == b"WEBP" and (b"VP8L" in data or b"ALPH" in data)
    return min(len(data) // _SMALLEST_GROUP, pixels // _SMALLEST_BLOCK, MAX_GROUPS) if lossless else 0


def check_groups(data: bytes) -> None:
    """Check how many groups of Huffman codes the first image of a WebP has, its alpha included.

    Raises:
        ImageTooLarge: there are more than `MAX_GROUPS`, or more blocks of pixels than `MAX_BLOCKS`.
        ImageUndecodable: its chunks or codes are damaged.
    """
    if len(data) // _SMALLEST_GROUP > MAX_GROUPS and (image := _lossless_image(data)) is not None:
        _check(*image)


def _lossless_image(data: bytes) -> tuple[_Bits, int, int] | None:
    """Return the bits, width and height of the first image or of its alpha; None if neither is lossless."""
    alpha = memoryview(b"")
    for number, (kind, content) in enumerate(_chunks(memoryview(data)[_CANVAS:])):
        if number > MAX_CHUNKS:
            raise ImageUndecodable(f"the WebP has more than {MAX_CHUNKS} chunks; export it again")
        if kind == b"ALPH" and not alpha:
            alpha = content
        elif kind == b"VP8L":
            sides = int.from_bytes(content[1:5], "little")
            return _Bits(content[5:]), (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1
        elif kind == b"VP8 ":
            # Bits 0 and 1 of the first byte say whether the alpha is compressed.
            if not alpha or alpha[0] & 3 != 1:
                return None
            width, height = (
                int.from_bytes(content[start : start + 2], "little") & 0x3FFF
                for start in (_LOSSY_SIDES, _LOSSY_SIDES + 2)
            )
            return _Bits(alpha[1:]), width, height
    return None


def _chunks(view: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the kind and content of each chunk, those of a frame of an animation in its place."""
    start = 0
    while start + 8 <= len(view):
        kind, size = bytes(view[start : start + 4]), int.from_bytes(view[start + 4 : start + 8], "little")
        content = view[start + 8 : start + 8 + size]
        yield from _chunks(content[_FRAME:]) if kind == b"ANMF" else [(kind, content)]
        start += 8 + size + size % 2


class _Bits:
    """The bits of a stream, each byte from its lowest."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._start, self._end = data, 0, len(data) * 8

    def peek(self) -> int:
        """Return the next 16 bits and more, zeros behind the end."""
        first = self._start >> 3
        return int.from_bytes(self._data[first : first + 4], "little") >> (self._start & 7)

    def skip(self, count: int) -> None:
        """Go on by so many bits.

        Raises:
            ImageUndecodable: there are not so many.
        """
        self._start += count
        if self._start > self._end:
            raise _damaged()

    def read(self, count: int) -> int:
        """Return the number of the next bits, at most 16."""
        value = self.peek() & ((1 << count) - 1)
        self.skip(count)
        return value


class _Code:
    """A prefix code by the lengths of its symbols, 0 of those that it does not have."""

    def __init__(self, lengths: list[int]) -> None:
        used = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
        # A code of one symbol takes no bits, whatever its length.
        self._longest = used[-1][0] if len(used) > 1 else 0
        self._table: list[tuple[int, int]] = [(used[0][1], 0)] if len(used) == 1 else []
        if len(used) < 2:
            return
        if sum(1 << (_LONGEST - length) for length, _ in used) != 1 << _LONGEST:
            raise _damaged()
        self._table = [(0, 0)] * (1 << self._longest)
        code = 0
        for (length, symbol), (longer, _) in pairwise([*used, used[-1]]):
            first = int(f"{code:0{length}b}"[::-1], 2)
            step = 1 << length
            self._table[first::step] = [(symbol, length)] * (1 << (self._longest - length))
            code = (code + 1) << (longer - length)

    def read(self, bits: _Bits) -> int:
        """Return the next symbol.

        Raises:
            ImageUndecodable: the code has none, or the stream ends.
        """
        if not self._table:
            raise _damaged()
        symbol, length = self._table[bits.peek() & ((1 << self._longest) - 1)]
        bits.skip(length)
        return symbol


def _check(bits: _Bits, width: int, height: int) -> None:
    """Read the images of the transforms, and the entropy image behind them."""
    blocks, transforms = 0, set()
    while bits.read(1):
        kind = bits.read(2)
        if kind in transforms:
            raise _damaged()
        transforms.add(kind)
        if kind in (_PREDICTOR, _COLOUR):
            blocks, _ = _walked(bits, blocks, width, height, bits.read(3) + 2)
        elif kind == _INDEXING:
            colours = bits.read(8) + 1
            blocks, _ = _walked(bits, blocks, colours, 1, 0)
            width = -(-width >> (3 if colours <= 2 else 2 if colours <= 4 else 1 if colours <= 16 else 0))
    if bits.read(1):
        bits.skip(4)
    if bits.read(1) and (last := _walked(bits, blocks, width, height, bits.read(3) + 2)[1]) >= MAX_GROUPS:
        raise ImageTooLarge(
            f"the WebP has {last + 1:,} groups of Huffman codes, more than {MAX_GROUPS:,}; save it as a PNG"
        )


def _walked(bits: _Bits, before: int, width: int, height: int, shift: int) -> tuple[int, int]:
    """Walk over an image of one pixel a block; return the blocks of all, and its largest number of a group.

    Raises:
        ImageTooLarge: there are more than `MAX_BLOCKS` with those ``before``.
    """
    left = -(-width >> shift) * -(-height >> shift)
    if before + left > MAX_BLOCKS:
        raise ImageTooLarge(
            f"the WebP is written in more than {MAX_BLOCKS:,} blocks of pixels; save it as a PNG"
        )
    blocks, largest = before + left, 0
    cached = 1 << bits.read(4) if bits.read(1) else 0
    green, red, blue, alpha, distance = (
        _code(bits, symbols) for symbols in (_BYTE + _LENGTHS + cached, _BYTE, _BYTE, _BYTE, _DISTANCES)
    )
    while left > 0:
        symbol = green.read(bits)
        if symbol < _BYTE:
            largest = max(largest, red.read(bits) << 8 | symbol)
            blue.read(bits)
            alpha.read(bits)
            left -= 1
        elif symbol < _BYTE + _LENGTHS:
            left -= _extended(bits, symbol - _BYTE)
            _extended(bits, distance.read(bits))
        else:
            left -= 1
    return blocks, largest


def _extended(bits: _Bits, symbol: int) -> int:
    """Return the length or distance of a symbol and the bits behind it."""
    if symbol < 4:
        return symbol + 1
    extra = (symbol - 2) >> 1
    return ((2 + symbol % 2) << extra) + bits.read(extra) + 1


def _code(bits: _Bits, symbols: int) -> _Code:
    """Read a code of so many symbols.

    Raises:
        ImageUndecodable: it has more, or its lengths are those of no code.
    """
    lengths = [0] * symbols
    if bits.read(1):
        second = bits.read(1)
        for width in (8 if bits.read(1) else 1, 8)[: second + 1]:
            lengths[bits.read(width)] = 1
        return _Code(lengths)
    of_lengths = [0] * len(_ORDER)
    for symbol in _ORDER[: 4 + bits.read(4)]:
        of_lengths[symbol] = bits.read(3)
    code, last, start = _Code(of_lengths), 8, 0
    most = 2 + bits.read(2 + 2 * bits.read(3)) if bits.read(1) else symbols
    for _ in range(most):
        if start >= symbols:
            break
        length = code.read(bits)
        again, repeated = 1, length
        if length in _REPEATS:
            extra, least = _REPEATS[length]
            again, repeated = least + bits.read(extra), last if length == 16 else 0
        elif length:
            last = length
        if start + again > symbols:
            raise _damaged()
        lengths[start : start + again] = [repeated] * again
        start += again
    return _Code(lengths)


def _damaged() -> ImageUndecodable:
    return ImageUndecodable("the WebP's codes are damaged or cut off; export the image again")
