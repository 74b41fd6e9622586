# Generated from clients/counterpose/_async/images.py by clients/blocking_half.py; do not edit.
"""Generated images: what they show, their bytes on request, and saving them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from counterpose._files import write_bytes
from counterpose._run_calls import image_call
from counterpose._transport_protocol import Sender
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.dataset_interfaces import Image, Images
from counterpose_core.types import BlobRef, Cost

_LONGEST_STEM = 40
_REF_DIGITS = 12
_NO_LETTERS = re.compile(r"[\W_]+")


class GeneratedImage:
    """A generated image with what is needed to generate it again: prompt, ``seed`` and ``token``.

    Its bytes are downloaded by an blocking call.
    """

    def __init__(self, sender: Sender, described: Image) -> None:
        self._sender = sender
        self.described = described

    @property
    def image(self) -> BlobRef:
        """The reference of the stored image."""
        return self.described.image

    @property
    def class_name(self) -> str:
        """The class that it should show."""
        return self.described.class_name

    @property
    def shift(self) -> str:
        """The name of its shift; ``base`` for none."""
        return self.described.shift

    @property
    def prompt(self) -> str:
        """The prompt that it was generated from."""
        return self.described.prompt

    @property
    def seed(self) -> int:
        """The seed of its own initial noise."""
        return self.described.seed

    @property
    def token(self) -> BlobRef | None:
        """The learned token that stood for the class; None if the plain name did."""
        return self.described.token

    @property
    def filename(self) -> str:
        """A file name that is safe on every system and the same on every call."""
        return f"{_stem(self.class_name)}-{_stem(self.shift)}-{self.image[:_REF_DIGITS]}.png"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prompt!r}, seed={self.seed})"

    def image_bytes(self) -> bytes:
        """Download the image as PNG, marked as synthetic."""
        return self._sender.send(image_call(self.image))

    def save(self, folder: str | Path) -> Path:
        """Save the image in ``folder``, created if necessary, and return its path.

        Raises:
            InvalidRequest: the file cannot be written.
        """
        return write_bytes(Path(folder) / self.filename, self.image_bytes())


class GeneratedImages(list[GeneratedImage]):
    """Generated images in order, with the ``model`` that generated them and their ``cost``."""

    def __init__(self, images: Iterable[GeneratedImage], model: ModelIdentity, cost: Cost) -> None:
        super().__init__(images)
        self.model = model
        self.cost = cost

    @classmethod
    def of(cls, sender: Sender, answer: Images) -> GeneratedImages:
        """Wrap the images of a response."""
        return cls((GeneratedImage(sender, each) for each in answer.images), answer.model, answer.cost)

    def save(self, folder: str | Path) -> list[Path]:
        """Save all images in ``folder``; as `GeneratedImage.save`."""
        return [image.save(folder) for image in self]


def _stem(name: str) -> str:
    # Letters of any script, but no separator or dot: class names come from users.
    return _NO_LETTERS.sub("_", name)[:_LONGEST_STEM].strip("_") or "image"
