"""The parts of a suite whose models chat about images at a server with the OpenAI API."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from counterpose_core.contract.order_effects import MOST_TURNED_IMAGES
from counterpose_core.suite_parts import SuitePart
from counterpose_core.suite_servers import Server
from counterpose_core.text_form import TextForm

CHAT = "chat:"
"""What the name of a classifier begins with that is such a model with a question."""


def chats(spec: str) -> bool:
    """Return whether a classifier's name is that of a model that chats."""
    return spec.startswith(CHAT)


ChatName = Annotated[
    str,
    # With the prefix, it names the classifier's account in a ledger's column of 32 characters.
    Field(pattern=r"\A[a-zA-Z0-9][a-zA-Z0-9_.-]{0,26}\z"),
    TextForm("must be a name of at most 27 letters from a to z, digits, dots, dashes and underscores"),
]

ChatAnswers = Literal["letters", "labels", "choice", "text"]
"""How labels are read: log-probabilities of letters in one pass, or of each label in a pass of its own, a
constrained choice, or parsed text."""


class JudgeSuite(SuitePart):
    """A model that chats about images, at a ``server`` with the OpenAI API: it is shown each edit beside its
    source, and asked closed questions, which it answers in at most ``max_tokens``.
    """

    server: Server
    model: str
    max_tokens: int = Field(default=200, ge=1)
    batch: int = Field(default=16, ge=1)

    @property
    def identity(self) -> str:
        """The model and its host, or the host alone of a model without a name."""
        return f"{self.model} at {urlsplit(self.server).netloc}".strip()


class ChatSuite(SuitePart):
    """A classifier: a model that chats about images at ``server``, asked one ``question`` about each.

    The labels are the run's classes, with the words of ``labels`` in place of a class's name. ``answers``
    says how they are read; ``auto`` takes letters, else choice, else text, as the server can. An answer has
    at most ``max_tokens``. With ``look``, the model must tell a red from a blue image before it is asked
    anything. The effect of the labels' order is measured on ``order_images`` of a run's images, 0 for none.
    """

    server: Server
    model: str
    question: str = Field(default="What does the image show?", min_length=1, max_length=4000)
    labels: dict[str, str] = {}
    answers: Literal["auto"] | ChatAnswers = "auto"
    max_tokens: int = Field(default=64, ge=1, le=4096)
    look: bool = True
    order_images: int = Field(default=MOST_TURNED_IMAGES, ge=0, le=MOST_TURNED_IMAGES)
