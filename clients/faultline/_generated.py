"""Generated pictures as a program holds them: what they show, their bytes when asked for, files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from faultline._files import write_bytes
from faultline._run_calls import picture_call
from faultline._sending import AsyncSender, Sender
from faultline_core.contract.base import ModelIdentity
from faultline_core.contract.dataset_interfaces import Picture, Pictures
from faultline_core.types import BlobRef, Cost

_LONGEST_STEM = 40
_SHOWN_OF_REF = 12
_NO_LETTERS = re.compile(r"[\W_]+")


class _Shown:
    """A generated picture, and what it takes to make it again: prompt, ``seed`` and learned ``token``."""

    def __init__(self, told: Picture) -> None:
        self.told = told

    @property
    def image(self) -> BlobRef:
        """The stored picture's reference."""
        return self.told.image

    @property
    def class_name(self) -> str:
        """The class that it shall show."""
        return self.told.class_name

    @property
    def shift(self) -> str:
        """How it was changed, by the shift's name; ``base`` where it was not."""
        return self.told.shift

    @property
    def prompt(self) -> str:
        """What it was generated from."""
        return self.told.prompt

    @property
    def seed(self) -> int:
        """The seed of its own starting noise."""
        return self.told.seed

    @property
    def token(self) -> BlobRef | None:
        """The bundle that stood for the class; None where its plain name did."""
        return self.told.token

    @property
    def filename(self) -> str:
        """A name for its file, safe anywhere and the same whenever it is saved."""
        return f"{_stem(self.class_name)}-{_stem(self.shift)}-{self.image[:_SHOWN_OF_REF]}.png"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prompt!r}, seed={self.seed})"


class GeneratedPicture(_Shown):
    """A generated picture; its bytes come when they are asked for."""

    def __init__(self, sender: Sender, told: Picture) -> None:
        super().__init__(told)
        self._sender = sender

    def image_bytes(self) -> bytes:
        """The picture as PNG, marked as synthetic."""
        return self._sender.send(picture_call(self.image))

    def save(self, folder: str | Path) -> Path:
        """Write it into ``folder``, which is made if need be, and say where it is.

        Raises:
            InvalidRequest: nothing can be written there.
        """
        return write_bytes(Path(folder) / self.filename, self.image_bytes())


class AsyncGeneratedPicture(_Shown):
    """A generated picture; its bytes come when they are awaited."""

    def __init__(self, sender: AsyncSender, told: Picture) -> None:
        super().__init__(told)
        self._sender = sender

    async def image_bytes(self) -> bytes:
        """The picture as PNG, marked as synthetic."""
        return await self._sender.send(picture_call(self.image))

    async def save(self, folder: str | Path) -> Path:
        """Write it into ``folder``; as `GeneratedPicture.save`."""
        return write_bytes(Path(folder) / self.filename, await self.image_bytes())


class GeneratedPictures(list[GeneratedPicture]):
    """Generated pictures in their order, with the ``model`` that made them and what they ``cost``."""

    def __init__(self, pictures: Iterable[GeneratedPicture], model: ModelIdentity, cost: Cost) -> None:
        super().__init__(pictures)
        self.model = model
        self.cost = cost

    @classmethod
    def of(cls, sender: Sender, told: Pictures) -> GeneratedPictures:
        """Take an answer's pictures up."""
        return cls((GeneratedPicture(sender, one) for one in told.pictures), told.model, told.cost)

    def save(self, folder: str | Path) -> list[Path]:
        """Write all of them into ``folder``; as `GeneratedPicture.save`."""
        return [picture.save(folder) for picture in self]


class AsyncGeneratedPictures(list[AsyncGeneratedPicture]):
    """Generated pictures in their order, with the ``model`` that made them and what they ``cost``."""

    def __init__(self, pictures: Iterable[AsyncGeneratedPicture], model: ModelIdentity, cost: Cost) -> None:
        super().__init__(pictures)
        self.model = model
        self.cost = cost

    @classmethod
    def of(cls, sender: AsyncSender, told: Pictures) -> AsyncGeneratedPictures:
        """Take an answer's pictures up."""
        return cls((AsyncGeneratedPicture(sender, one) for one in told.pictures), told.model, told.cost)

    async def save(self, folder: str | Path) -> list[Path]:
        """Write all of them into ``folder``; as `GeneratedPicture.save`."""
        return [await picture.save(folder) for picture in self]


def _stem(name: str) -> str:
    # Letters of any script, never a separator or a dot: a name comes from whoever named the class.
    return _NO_LETTERS.sub("_", name)[:_LONGEST_STEM].strip("_") or "picture"
