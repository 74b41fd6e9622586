"""Draws: the items of a source that are made from noise of their own, and the seeds of that noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import InternalError
from counterpose_gateway.records.items import LeasedGroup, LeasedItem
from counterpose_gateway.runs.seeds import derive_seed

Noise = tuple[int, str]
"""The number of a draw, and what is made of it: a placebo, an edit, or an image with which conditions."""


def by_noise(group: LeasedGroup, config: StressTestConfig) -> Iterator[tuple[LeasedGroup, StressTestConfig]]:
    """Yield the items that share their noise, with the configuration that makes them.

    Placebo and edits of one draw have noise of their own as well: all images of a source are then alike if
    the words do nothing, so that a test may exchange any of them.

    Raises:
        InternalError: an item is a draw, and the run has no settings that draw.
    """
    parts: dict[Noise | None, list[LeasedItem]] = {}
    for item in group.items:
        parts.setdefault(_noise(item), []).append(item)
    for noise, items in parts.items():
        part = replace(group, items=items)
        yield part, config if noise is None else _drawn(config, group.item_group, noise)


def _noise(item: LeasedItem) -> Noise | None:
    if item.instruction is None:
        return None
    instruction = Instruction.model_validate(item.instruction)
    part = instruction.conjunction
    kind = item.kind if part is None else f"{item.kind}/{part.shows}"
    return None if instruction.draw is None else (instruction.draw, kind)


def _drawn(config: StressTestConfig, source: str, noise: Noise) -> StressTestConfig:
    if config.redraw is None:
        raise InternalError("the run's suite has no settings for several draws of one image")
    return config.model_copy(update={"preset": seeded(config.redraw, config.request.seed, source, noise)})


def seeded(redraw: EditorPreset, seed: int, source: str, noise: Noise) -> EditorPreset:
    """Return the settings of a draw, whose seed depends on the run's seed, the source and the draw alone."""
    return redraw.drawn(derive_seed(seed, source, "draw", *noise))
