"""The settings of edits by a server with the images API of OpenAI: what it takes, and how it is asked."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from counterpose_core.contract.backend_preset import BackendPreset
from counterpose_core.contract.editor_backends import CAPABILITIES, Capabilities
from counterpose_core.contract.regions import ConfinedBy
from counterpose_core.text.edit_instruction import TemplateName
from counterpose_core.text_form import TextForm
from counterpose_core.types import Seed

ONE_CALL = 150
"""Evaluations that a call is counted as: about four seconds, so that eight make a call to the editor."""

_Size = Annotated[
    str,
    Field(pattern=r"\A(auto|source|[1-9][0-9]{0,4}x[1-9][0-9]{0,4})\z"),
    TextForm("must be auto, source, or a width and a height in pixels, such as 1024x1024"),
]


class ImagesApiPreset(BackendPreset):
    """How an images server is asked; servers of one API take different fields, so each is said here."""

    backend: Literal["images-api"]
    """How the editor makes its images."""
    template: TemplateName = "both-captions"
    """Name of the template by which two captions become an instruction."""
    seeded: bool = False
    """Whether the server takes a `seed` and repeats its image by it; otherwise each draw is a call of its
    own, and draws are told apart by their images."""
    seed: Seed = 0
    """Number of the draw; a server that is `seeded` gets a seed that is made of it and the image."""
    # Answers are kept by preset: those of before this field are found again.
    mask: bool = Field(default=False, exclude_if=lambda mask: not mask)
    """Whether the server takes a mask of an edit's region: a PNG in the form's field `mask`, transparent
    where the image may change. Otherwise the rest of the source is put back over its answer."""
    text_to_image: bool = False
    """Whether the server's model also makes images from text alone."""
    size: _Size | None = None
    """What the server is asked for as `size`: a size such as `1024x1024`, `auto`, or `source` for that of the
    image; null to say none."""
    resize: bool = False
    """Whether an image of another size is scaled to that of its source; otherwise it is used as it came, and
    its size is recorded as drift."""
    send_response_format: bool = True
    """Whether the server is asked for `b64_json`; OpenAI's own models of images refuse the field, and send
    this form anyway."""

    @property
    def capabilities(self) -> Capabilities:
        """What every images server can do, and what this one is said to."""
        declared = {"seeded": self.seeded, "draw": self.text_to_image}
        return CAPABILITIES[self.backend].model_copy(update=declared)

    @property
    def confined_by(self) -> ConfinedBy | None:
        """The server, if it takes masks, else pixels of the source over its answer."""
        return "mask" if self.mask else "composite"

    @property
    def draws(self) -> bool:
        """Its images of one edit differ by chance alone, with a seed or without."""
        return True

    def drawn(self, seed: int) -> Self:
        """Return a copy that makes the draw of this number."""
        return self.model_copy(update={"seed": seed})

    @property
    def image_seed(self) -> int | None:
        """The number of the draw, if the server repeats an image by it."""
        return self.seed if self.seeded else None

    @property
    def calls_server(self) -> bool:
        """A server makes the images."""
        return True

    def most_evaluations(self, images: int) -> int:
        """Return as how many evaluations so many images count: what a server does for one is not known."""
        return ONE_CALL * images
