"""Prompts of the language model: one instruction per perturbation type, with examples only for collection.

The paper's scheme (LANCE, section 3.1 and Table 5) in our own words. Background has two instructions, place
and weather. Collection prompts contain worked examples; the fine-tuned model gets none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from types import MappingProxyType
from typing import Literal

from counterpose_core.blobs import digest
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.caption_diff import compact_prompt
from counterpose_core.types import PerturbationType
from counterpose_services.perturber.language_model import Messages

PromptStyle = Literal["instruction", "compact", "chat"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction for edits of one type; `examples` are pairs of a caption and an edit of it."""

    name: str
    perturbation_type: PerturbationType
    text: str
    examples: tuple[tuple[str, str], ...]


def _ours() -> Iterator[Instruction]:
    file = resources.files("counterpose_services") / "perturber" / "prompts.toml"
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["instruction"]:
        yield Instruction(row["name"], row["type"], row["text"], tuple(map(tuple, row["examples"])))


_ALL = tuple(_ours())
INSTRUCTIONS: Mapping[PerturbationType, tuple[Instruction, ...]] = MappingProxyType(
    {
        kind: tuple(one for one in _ALL if one.perturbation_type == kind)
        for kind in dict.fromkeys(one.perturbation_type for one in _ALL)
    }
)

FRAME = (
    "You are given a task about the caption of a picture, and the caption. Answer with edited captions only, "
    "one on each line.\n\n### Task:\n{task}\n\n### Caption:\n{caption}\n\n### Variations:\n"
)
_LINE_ENDS = ("\n", "\r")
_COMPACT_MARKS = ("=>",)
# A word that begins with a sign: "###", "[INST]" or "<|user|>".
_MARK = re.compile(r"(?<!\S)(?![\"'({])[^\w\s]\S+")


@dataclass(frozen=True)
class Prompts:
    """The instructions of each type, and the frame of a fine-tuned model with ``{task}`` and ``{caption}``.

    ``digest`` names a user's; None means ours.
    """

    instructions: Mapping[PerturbationType, tuple[Instruction, ...]]
    frame: str = FRAME
    digest: str | None = None

    @cached_property
    def _marks(self) -> tuple[str, ...]:
        return (*dict.fromkeys(_MARK.findall(self.frame.format(task="", caption=""))), *_LINE_ENDS)

    def asked(
        self, style: PromptStyle, perturbation_type: PerturbationType, caption: str
    ) -> list[str | Messages]:
        """Return the prompts of a type, one for each of its instructions.

        Args:
            style: how the model was trained to read a task.
            perturbation_type: what the edit changes.
            caption: the text to edit.

        Raises:
            InvalidRequest: the caption contains a mark that would end its part of the prompt.
        """
        # The model would read text after such a mark as a task or as the answer.
        for mark in {"instruction": self._marks, "compact": _COMPACT_MARKS, "chat": _LINE_ENDS}[style]:
            if mark in caption:
                raise InvalidRequest(
                    f"the caption {caption[:80]!r} contains {mark!r}, a mark of the prompt itself; remove it"
                )
        if style == "compact":
            return [compact_prompt(perturbation_type, caption)]
        choices = self.instructions[perturbation_type]
        if style == "chat":
            return [chat_messages(instruction, caption) for instruction in choices]
        return [self.instruction_prompt(instruction, caption) for instruction in choices]

    def instruction_prompt(self, instruction: Instruction, caption: str) -> str:
        """Return the prompt for a fine-tuned model: frame, instruction and caption, without examples."""
        return self.frame.format(task=instruction.text, caption=caption)

    def collection_prompt(self, instruction: Instruction, caption: str, *, wanted: int) -> str:
        """Return the prompt that asks a general assistant for ``wanted`` edits, with examples."""
        shown = "\n".join(f'"{before}" may become "{after}"' for before, after in instruction.examples)
        task = f"{instruction.text} Write {wanted} different captions."
        return self.frame.format(task=f"{task}\nFor example:\n{shown}" if shown else task, caption=caption)

    def named(self, identity: ModelIdentity) -> ModelIdentity:
        """Return the name of the weights with that of the prompts: other prompts, other answers."""
        if self.digest is None:
            return identity
        both = digest(f"{identity.revision} {self.digest}".encode())
        return ModelIdentity(id=identity.id, revision=both)


_CHAT_TASK = (
    "You edit captions of pictures. {task} Answer with different edited captions only, one on each line.\n\n"
    "Caption: {caption}"
)
_CHAT_CAPTION = "Caption: {caption}"


def chat_messages(instruction: Instruction, caption: str) -> Messages:
    """Return the chat with a model that was trained to follow instructions.

    Each example is a question with its answer. The task is in the first question, because some templates
    refuse a system message, and the caption comes last, so that servers keep the beginning.
    """
    questions = [before for before, _ in instruction.examples] + [caption]
    answers = [after for _, after in instruction.examples]
    told = [_CHAT_TASK.format(task=instruction.text, caption=questions[0])]
    told += [_CHAT_CAPTION.format(caption=question) for question in questions[1:]]
    turns = [{"role": "user", "content": told[0]}]
    for answer, question in zip(answers, told[1:], strict=True):
        turns += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    return tuple(turns)


OURS = Prompts(INSTRUCTIONS)
"""The instructions in our own words."""
