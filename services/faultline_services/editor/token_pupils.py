"""A class of a request for learned tokens: what it learns from, where it stands, how far it goes now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from faultline_core.contract.tokens import LearnTokenItem
from faultline_core.editing.lesson import Draws, Learned, Lesson, Sample
from faultline_core.types import BlobRef
from faultline_services.editor.token_checkpoint import Checkpoint, Recipe
from faultline_services.editor.training_latents import Shown, TrainingLatents


@dataclass(frozen=True, order=True)
class Picture:
    """A picture of a class by its bytes, and the prompt it is shown under, if it has one of its own."""

    image: BlobRef
    prompt: str = ""


@dataclass(frozen=True)
class Pupil:
    """One class: its readable pictures, where its vectors (k, D) started and stand, where this link ends."""

    item: LearnTokenItem
    recipe: Recipe
    pictures: tuple[Picture, ...]
    draws: Draws
    initial: Tensor
    checkpoint: Checkpoint
    until: int

    def shown(self, sample: Sample) -> Shown:
        """Name the picture of a sample."""
        return self.pictures[sample.picture].image, sample.mirrored

    def samples(self) -> list[Sample]:
        """Draw all that this link will show."""
        steps = range(self.checkpoint.state.step, self.until)
        return [sample for step in steps for sample in self.draws.samples(step)]

    def prompts(self) -> list[str]:
        """Return the prompts of their own that pictures of this link have."""
        if self.item.prompts is None:
            return []
        return [self.pictures[number].prompt for number in sorted({each.picture for each in self.samples()})]

    def lesson(self, latents: TrainingLatents, numbers: Mapping[str, int]) -> Lesson:
        """Return what the tensors see of it; ``numbers`` are those of the prompts of pictures' own."""

        def prompt(sample: Sample) -> int:
            return numbers[self.pictures[sample.picture].prompt] if self.item.prompts else sample.template

        def shown(sample: Sample) -> Tensor:
            return latents.of(self.shown(sample))

        return Lesson(self.draws, self.initial, self.checkpoint.state, self.until, shown, prompt)

    def after(self, learned: Learned) -> Checkpoint:
        """Return where it stands after a lesson."""
        losses = (*self.checkpoint.losses, *learned.losses)
        return Checkpoint(learned.state, losses, self.checkpoint.dropped)
