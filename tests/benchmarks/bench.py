"""What every gate is given: sizes, the trained miniature editor, and work for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from benchmarks.contestants.judge import Judge
from benchmarks.contestants.product import Product
from benchmarks.contestants.reference import Reference
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, drawn
from faultline_core.contract.editor import EditorPreset
from faultline_core.suite import EditorSuite
from faultline_services.editor.pipeline import Pipeline

PAPER = "lance"
"""The suite's preset with the paper's values."""


@dataclass(frozen=True)
class FastMode:
    """A preset that optimises nothing, and how many times fewer F than the reference it is to take."""

    name: str
    preset: EditorPreset
    fewer: float | None


@dataclass(frozen=True)
class Bench:
    """Contestants are loaded once and shared by all gates."""

    sizes: Sizes
    suite: EditorSuite
    pipeline: Pipeline

    @cached_property
    def product(self) -> Product:
        """Faultline's editor."""
        return Product(self.suite, self.pipeline)

    @cached_property
    def reference(self) -> Reference:
        """The oracle."""
        return Reference(self.pipeline)

    @cached_property
    def judge(self) -> Judge:
        """The suite's picture gate."""
        return Judge()

    @cached_property
    def work(self) -> Workload:
        """All pictures and edits that any gate asks for."""
        sizes = self.sizes
        pictures = max(sizes.pictures, sizes.fast_pictures, sizes.timed_pictures, sizes.judged)
        return drawn(pictures, max(sizes.edits, sizes.fast_edits))

    def exact(self, steps: int) -> EditorPreset:
        """Null-text inversion and the full sweep, the paper's values."""
        return self.suite.presets[PAPER].model_copy(update={"steps": steps})

    def direct(self, steps: int) -> EditorPreset:
        """Direct inversion, everything else as in the paper."""
        return self.exact(steps).model_copy(update={"inversion": "direct"})

    def fast_modes(self) -> list[FastMode]:
        """Ways without inner optimisation, from many steps to few; the last has no target: a stretch."""
        many, few = self.sizes.steps, self.sizes.few_steps
        fewest = max(1, 12 * many // 50)
        second_order = {"solver": "dpm-solver++", "spacing": "trailing"}
        virtual = {"inversion": "virtual", "solver": "consistent", "spacing": "trailing"}
        return [
            FastMode(f"direct, {many} steps", self.direct(many), 7.0),
            FastMode(f"direct, {few} steps", self.direct(few), 15.0),
            FastMode(
                f"direct, dpm-solver++, {few} steps", self.direct(few).model_copy(update=second_order), 15.0
            ),
            FastMode(
                f"virtual inversion, {fewest} steps", self.direct(fewest).model_copy(update=virtual), None
            ),
        ]
