"""What every gate receives: sizes, the trained miniature editor, and its work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.pipeline import Pipeline
from evaluation.benchmarks.contestants.judge import Judge
from evaluation.benchmarks.contestants.product import Product
from evaluation.benchmarks.contestants.reference import Reference
from evaluation.benchmarks.sizes import Sizes
from evaluation.benchmarks.workload import Workload, drawn

PAPER, OWN = "lance", "null-text"
"""The suite's presets with the paper's values, and with guidance and cross-attention of the model's own.

What an evaluation costs and the whole sweep's count are the same under both. A lazy sweep's count depends
on how often a value passes the gate, and under the paper's values this model's edits seldom do.
"""


@dataclass(frozen=True)
class FastMode:
    """A preset without optimisation, and its target: how many times fewer F than the reference."""

    name: str
    preset: PromptToPromptPreset
    fewer: float | None


@dataclass(frozen=True)
class Bench:
    """Contestants are loaded once and shared by all gates."""

    sizes: Sizes
    suite: EditorSuite
    pipeline: Pipeline

    @cached_property
    def product(self) -> Product:
        """Counterpose's editor."""
        return Product(self.suite, self.pipeline)

    @cached_property
    def reference(self) -> Reference:
        """The reference implementation."""
        return Reference(self.pipeline)

    @cached_property
    def judge(self) -> Judge:
        """The suite's image gate."""
        return Judge()

    @cached_property
    def work(self) -> Workload:
        """All images and edits that the gates use."""
        sizes = self.sizes
        images = max(sizes.images, sizes.fast_images, sizes.timed_images, sizes.judged)
        return drawn(images, max(sizes.edits, sizes.fast_edits))

    def exact(self, steps: int) -> PromptToPromptPreset:
        """Null-text inversion and the sweep of six values, at the model's own guidance."""
        return PromptToPromptPreset.of(self.suite.presets[OWN]).model_copy(update={"steps": steps})

    def paper(self, steps: int) -> PromptToPromptPreset:
        """Null-text inversion with the paper's guidance and cross-attention."""
        return PromptToPromptPreset.of(self.suite.presets[PAPER]).model_copy(update={"steps": steps})

    def direct(self, steps: int) -> PromptToPromptPreset:
        """Direct inversion; all other settings are those of null-text."""
        return self.exact(steps).model_copy(update={"inversion": "direct"})

    def fast_modes(self) -> list[FastMode]:
        """Presets without inner optimisation, by falling steps; the miniature uses five of 50 by default."""
        many, few = self.sizes.steps, self.sizes.few_steps
        fewest, default = max(1, 12 * many // 50), max(1, many // 10)
        second_order = {"solver": "dpm-solver++", "spacing": "trailing"}
        virtual = {"inversion": "virtual", "solver": "consistent", "spacing": "trailing"}
        return [
            FastMode(f"direct, {many} steps", self.direct(many), 7.0),
            FastMode(f"direct, {few} steps", self.direct(few), 15.0),
            FastMode(
                f"direct, dpm-solver++, {few} steps", self.direct(few).model_copy(update=second_order), 15.0
            ),
            FastMode(
                f"direct, trailing, {default} steps",
                self.direct(default).model_copy(update={"spacing": "trailing"}),
                40.0,
            ),
            FastMode(
                f"virtual inversion, {fewest} steps", self.direct(fewest).model_copy(update=virtual), None
            ),
        ]
