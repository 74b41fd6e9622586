"""A user's own prompts, read from a TOML file: instructions with their examples, and the frame around them.

    frame = \"\"\"### Instruction:
    {task}

    ### Input:
    {caption}

    ### Response:
    \"\"\"

    [[instruction]]
    name = "place"
    type = "background"
    text = "Change where it happens."
    examples = [["a dog on a road", "a dog on a beach"]]

A type with several instructions takes turns with them. Types that the file leaves out, and a frame that it
leaves out, are ours.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from string import Formatter
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, field_validator

from counterpose_core.blobs import digest
from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import PerturberSuite
from counterpose_core.types import PerturbationType
from counterpose_services.perturber.prompts import FRAME, INSTRUCTIONS, OURS, Instruction, Prompts

SLOTS = ["task", "caption"]


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Instruction(_Read):
    name: str = Field(min_length=1, max_length=100)
    type: PerturbationType
    text: str = Field(min_length=1, max_length=4000)
    examples: list[tuple[str, str]] = []


class _File(_Read):
    frame: str = FRAME
    instruction: list[_Instruction] = Field(min_length=1)

    @field_validator("frame")
    @classmethod
    def _has_both_slots(cls, frame: str) -> str:
        # A server keeps the beginning of a prompt that many captions share: the task comes first.
        if [slot for _, slot, _, _ in Formatter().parse(frame) if slot is not None] != SLOTS:
            raise ValueError("the frame must have {task} and then {caption}, each once")
        return frame

    @field_validator("instruction")
    @classmethod
    def _has_one_of_a_name(cls, listed: list[_Instruction]) -> list[_Instruction]:
        name, count = Counter(one.name for one in listed).most_common(1)[0]
        if count > 1:
            raise ValueError(f"two instructions have the name {name!r}")
        return listed


def read_prompts(file: Path) -> Prompts:
    """Read prompts from ``file``.

    Raises:
        InvalidRequest: the file is not there, or not of this form.
    """
    try:
        content = file.read_bytes()
        read = _File.model_validate(tomllib.loads(content.decode()))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"the prompts in {str(file)!r} cannot be read: {in_words(error)}") from error
    own: dict[PerturbationType, tuple[Instruction, ...]] = {}
    for one in read.instruction:
        kind = Instruction(one.name, one.type, one.text, tuple(one.examples))
        own[one.type] = (*own.get(one.type, ()), kind)
    return Prompts(MappingProxyType({**INSTRUCTIONS, **own}), read.frame, digest(content))


def prompts_of(suite: PerturberSuite) -> Prompts:
    """Return the prompts that a suite names, or ours."""
    return OURS if suite.prompts is None else read_prompts(Path(suite.prompts))
