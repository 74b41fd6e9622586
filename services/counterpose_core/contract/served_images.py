"""How a server of others made an image: what was asked for, and what came."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import BlobRef

Size = tuple[int, int]
"""Width and height in pixels."""


class ServedUsage(ResponseBody):
    """What the server says that the image took; null for what it does not say."""

    input_tokens: int | None = Field(default=None, ge=0)
    """Number of tokens of text and images that were sent."""
    output_tokens: int | None = Field(default=None, ge=0)
    """Number of tokens of the image that was made."""
    total_tokens: int | None = Field(default=None, ge=0)
    """Number of both together."""


class ServedImage(ResponseBody):
    """Where an image comes from that a server made."""

    server: str
    """Host of the server, with its port if it has one."""
    model: str
    """The server's name of the model."""
    template: str | None = None
    """Name of the template by which the captions became an instruction, or null for an image from text."""
    seed: int | None = None
    """The seed that was sent, or null if the server takes none: then no request repeats the image."""
    answer: BlobRef
    """SHA-256 of the image file as the server sent it."""
    size: Size
    """Size of the image as the server sent it."""
    drift_from: Size | None = None
    """Size of the source, where the server's image has another, or null where it has the same."""
    resized: bool = False
    """Whether the image was scaled to the size of the source."""
    seconds: float = Field(ge=0.0)
    """Seconds that the server took, with all tries."""
    usage: ServedUsage = ServedUsage()
    """What it says that the image took."""
    seed_repeats: bool | None = Field(default=None, exclude_if=lambda repeats: repeats is None)
    """Of an image that was asked for unchanged by a seed, and once more by the same: whether the server made
    it again; absent of all others."""
    noise_db: float | None = None
    """Of an image that was asked for unchanged: peak signal-to-noise ratio in dB between it and another draw
    of the same request, the server's own noise; null for other images, and where the two differ in size."""


def seed_of(seed: int | None, served: ServedImage | None) -> int | None:
    """Return the seed that makes an image again: of a server's image the one that it took, if it took one."""
    return seed if served is None else served.seed
