"""WebP files written bit by bit, as no encoder writes them."""

from __future__ import annotations

import struct

_ONE_SYMBOL = "1000"
"""A code whose only symbol is 0, which takes no bits itself."""


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """Return a WebP file of chunks."""
    body = b"".join(
        kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for kind, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def webp_of_groups(side: int, groups: int, transforms: str = "0", packed_as: int = 1) -> bytes:
    """Return a black lossless WebP whose blocks of 4 x 4 pixels name so many groups of Huffman codes."""
    stream = _number(side - 1, 14) + _number(side - 1, 14) + "0000"
    stream += groups_of(side, groups, transforms, packed_as)
    return riff((b"VP8L", b"/" + packed(stream)))


def groups_of(side: int, groups: int, transforms: str = "0", packed_as: int = 1) -> str:
    """Return the bits behind the header of such an image, without a colour cache.

    As its bit stream is specified (RFC 9649, section 3): an entropy image of one pixel a block, whose red and
    green number the group, and five codes of one symbol a group. ``transforms`` ends with a 0. Behind a
    table of few colours, ``packed_as`` pixels are one.
    """
    blocks = -(-side // 4) * -(-side // packed_as // 4)
    named = (_code(number % groups & 255) + _code(number % groups >> 8) for number in range(blocks))
    return "".join([transforms, "0", "1", "000", "0", _TWO_BYTES, *named, 5 * groups * _ONE_SYMBOL])


def predicted(side: int) -> str:
    """Return the bits of a predictor transform of blocks of 4 x 4 pixels, each written out in 16 bits."""
    return "1" + "00" + "000" + "0" + _TWO_BYTES + (-(-side // 4)) ** 2 * 2 * _code(0)


def indexed(colours: int) -> str:
    """Return the bits of a transform by a table of so many black colours."""
    return "1" + "11" + _number(colours - 1, 8) + "0" + 5 * _ONE_SYMBOL


def packed(bits: str) -> bytes:
    """Return bits as bytes, each from its lowest."""
    return int(bits[::-1], 2).to_bytes(len(bits) // 8 + 2, "little")


def _number(value: int, bits: int) -> str:
    return f"{value:0{bits}b}"[::-1]


def _code(byte: int) -> str:
    # Codes, unlike numbers, begin with their highest bit.
    return f"{byte:08b}"


def _codes_of_bytes(symbols: int) -> str:
    """The code in which each of the first 256 symbols has eight bits, and those behind them none."""
    rest = symbols - 256
    # The lengths of the code of lengths, in their order of 17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8.
    lengths = ["0"] * 12
    lengths[11], lengths[1 if rest else 2] = "1", "1"
    written = "".join(_number(int(length), 3) for length in lengths)
    eight, other = "0", "1"
    behind = other + _number(rest - 11, 7) if rest else ""
    return "0" + _number(12 - 4, 4) + written + "0" + 256 * (eight if rest else other) + behind


_TWO_BYTES = _codes_of_bytes(280) + _codes_of_bytes(256) + 3 * _ONE_SYMBOL
"""The codes of an image whose green and red take eight bits each, and all else none."""
