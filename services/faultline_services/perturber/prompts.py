"""What the language model is told: one instruction a perturbation type, with examples only when collecting.

The paper's scheme (LANCE, section 3.1 and Table 5) in our own words: background has two instructions,
place and weather; the pairs are collected with worked examples, the fine-tuned model sees none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from faultline_core.errors import InvalidRequest
from faultline_core.text.caption_diff import compact_prompt
from faultline_core.types import PerturbationType

PromptStyle = Literal["instruction", "compact"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One way to ask for edits of a type; `examples` are pairs of a caption and an edit of it."""

    name: str
    perturbation_type: PerturbationType
    text: str
    examples: tuple[tuple[str, str], ...]


_ALL = (
    Instruction(
        "subject",
        "subject",
        "Replace who or what the caption is mainly about by something else that could plausibly be there. "
        "Leave the action, the other things, the place and the kind of picture as they are.",
        (
            ("a woman throwing a ball to a dog", "a boy throwing a ball to a dog"),
            ("two horses drinking from a river", "two deer drinking from a river"),
        ),
    ),
    Instruction(
        "object",
        "object",
        "Find the thing that the main subject acts on, holds, wears or stands beside, and replace that thing "
        "alone. The subject and all else stay word for word.",
        (
            ("a woman throwing a ball to a dog", "a woman throwing a stick to a dog"),
            ("a chef holding a pan in a kitchen", "a chef holding a knife in a kitchen"),
        ),
    ),
    Instruction(
        "place",
        "background",
        "Change the place or the surroundings, or name some where the caption has none. People, animals and "
        "things in the foreground and what is said of them stay the same.",
        (
            ("a cat asleep on a sofa", "a cat asleep on a sofa in front of a bookshelf"),
            ("a cyclist on a country lane", "a cyclist on a beach"),
        ),
    ),
    Instruction(
        "weather",
        "background",
        "Change the weather or the light of day, or add it where the caption says nothing of it. Everything "
        "else stays the same.",
        (
            ("a cyclist on a country lane", "a cyclist on a country lane in heavy rain"),
            ("a bus stop on a foggy morning", "a bus stop at night"),
        ),
    ),
    Instruction(
        "adjective",
        "adjective",
        "Change one adjective or attribute, such as a colour, size, age or material, or add a single one. "
        "No other word changes.",
        (
            ("a small wooden boat on a lake", "a small metal boat on a lake"),
            ("a cat asleep on a sofa", "a cat asleep on a green sofa"),
        ),
    ),
    Instruction(
        "domain",
        "domain",
        "Change only what kind of picture it is, for instance a photo, a painting, a sketch, a cartoon or a "
        "sculpture. What it shows stays the same.",
        (
            ("a photo of a lighthouse", "an oil painting of a lighthouse"),
            ("a photo of two cats", "a pencil sketch of two cats"),
        ),
    ),
    Instruction(
        "placebo",
        "placebo",
        "Say the same with another word here or there. The picture that the caption describes must not "
        "change in any way.",
        (
            ("a photo of a boat near a pier", "a picture of a boat beside a pier"),
            ("a kid running through the woods", "a child running through the forest"),
        ),
    ),
)
INSTRUCTIONS: Mapping[PerturbationType, tuple[Instruction, ...]] = MappingProxyType(
    {
        kind: tuple(one for one in _ALL if one.perturbation_type == kind)
        for kind in dict.fromkeys(one.perturbation_type for one in _ALL)
    }
)

_FRAME = (
    "You are given a task about the caption of a picture, and the caption. Answer with edited captions only, "
    "one on each line.\n\n### Task:\n{task}\n\n### Caption:\n{caption}\n\n### Variations:\n"
)

_MARKS: Mapping[PromptStyle, tuple[str, ...]] = {"instruction": ("###", "\n", "\r"), "compact": ("=>",)}


def instruction_prompt(instruction: Instruction, caption: str) -> str:
    """Ask a fine-tuned model for edits: frame, instruction and caption, no examples."""
    return _FRAME.format(task=instruction.text, caption=caption)


def collection_prompt(instruction: Instruction, caption: str, *, wanted: int) -> str:
    """Ask a general assistant for `wanted` edits to learn from: the instruction with its examples."""
    shown = "\n".join(f'"{before}" may become "{after}"' for before, after in instruction.examples)
    task = f"{instruction.text} Write {wanted} different captions.\nFor example:\n{shown}"
    return _FRAME.format(task=task, caption=caption)


def prompt_for(
    style: PromptStyle, perturbation_type: PerturbationType, caption: str, *, variant: int = 0
) -> str:
    """Return the prompt an engine gives its model.

    Args:
        style: how the model was trained to read a task.
        perturbation_type: what the edit changes.
        caption: the text to edit.
        variant: picks one of the type's instructions.

    Raises:
        InvalidRequest: the caption holds what ends its own place in the prompt.
    """
    # A caption is data: what follows such a mark would be read as a task or as the answer.
    for mark in _MARKS[style]:
        if mark in caption:
            raise InvalidRequest(
                f"the caption {caption[:80]!r} contains {mark!r}, a mark of the prompt itself; remove it"
            )
    if style == "compact":
        return compact_prompt(perturbation_type, caption)
    choices = INSTRUCTIONS[perturbation_type]
    return instruction_prompt(choices[variant % len(choices)], caption)
