"""The settings of prompt-to-prompt: how an image is inverted, and its edits by a pair of captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from counterpose_core.contract.backend_preset import (
    BACKWARD,
    GUIDED,
    BackendPreset,
    Fraction,
    Guidance,
    SamplingSteps,
)
from counterpose_core.contract.regions import ConfinedBy
from counterpose_core.injection_steps import leading_steps
from counterpose_core.types import (
    InjectionEnd,
    Inversion,
    Seed,
    Solver,
    TimestepSpacing,
    TokenAlignment,
    WeightedWords,
)


class PromptToPromptPreset(BackendPreset):
    """All settings of an edit (LANCE, Table 6; the ``lance`` preset has the values of the released code)."""

    backend: Literal["prompt-to-prompt"] = Field(
        default="prompt-to-prompt",
        # Presets are hashed: they have the same keys as before they named a backend.
        exclude_if=lambda backend: backend == "prompt-to-prompt",
    )
    """How the editor makes its images; the other settings are this backend's own. A preset without it is
    prompt-to-prompt's."""
    inversion: Inversion = "direct"
    """How the image is inverted to noise; `virtual` draws the noise from `seed` and the image's bytes
    instead."""
    solver: Solver = "ddim"
    """Solver that takes a latent from one noise level to the next; `virtual` inversion requires
    `consistent`."""
    spacing: TimestepSpacing | None = None
    """How the steps are spaced over the noise levels, or null for the spacing of the model's own
    scheduler."""
    seed: Seed = 0
    """Seed of every random draw of the edit; each image can be reproduced on its own."""
    steps: SamplingSteps = 20
    guidance: Guidance = 3.0
    cross_replace: Fraction = 0.8
    """Fraction of the steps during which cross-attention is replaced."""
    self_replace: tuple[Fraction, ...] = Field(default=(0.4, 0.6, 0.8), min_length=1, max_length=16)
    """Fractions of the steps during which self-attention is replaced; one image is made for each value."""
    word_weight: float = Field(default=2.0, ge=0.0, le=10.0)
    """Factor by which the cross-attention of the added words is multiplied."""
    token_alignment: TokenAlignment = "words"
    """How the tokens of the two captions correspond: `words` aligns whole words and lets the padding follow
    the end mark; `released` aligns single tokens where words were added or removed, and leaves the padding in
    place, as prompt-to-prompt's released code does."""
    weighted_words: WeightedWords = "added"
    """Words that `word_weight` applies to: `added` means the added words only, `released` also every other
    occurrence of the same words in the edited caption."""
    injection_end: InjectionEnd = "exact"
    """How `cross_replace` and `self_replace` become numbers of steps: `exact` rounds the fraction of all
    steps down; `released` counts one step more for `cross_replace`, and rounds as floating-point numbers do,
    so that 0.29 of 100 steps is 28."""
    local_blend: bool = False
    """Whether to keep the image unchanged outside the region of the changed words."""
    inner_steps: int = Field(default=10, ge=0, le=100)
    """Maximum number of optimisation steps for each null-text embedding."""
    inner_learning_rate: float = Field(default=1e-2, gt=0.0, le=1.0)
    """Learning rate of the null-text optimisation."""
    inner_tolerance: float = Field(default=1e-5, ge=0.0)
    """Loss below which the null-text optimisation of a step stops."""
    preview: bool = False
    """Whether to choose from the sweep by images of the suite's small decoder, and to decode only the chosen
    image with the full one."""

    @model_validator(mode="after")
    def _virtual_needs_consistent(self) -> Self:
        # With noise that was only drawn, no other solver returns to the image.
        if self.inversion == "virtual" and self.solver != "consistent":
            raise ValueError(f"virtual inversion requires the solver 'consistent', not {self.solver!r}")
        return self

    @property
    def sweep(self) -> tuple[float, ...]:
        """The values of ``self_replace``."""
        return self.self_replace

    def with_sweep(self, strengths: Sequence[float]) -> Self:
        """Return a copy whose ``self_replace`` is ``strengths``."""
        return self.model_copy(update={"self_replace": tuple(strengths)})

    def level(self, strength: float) -> float:
        """Return for how many steps self-attention is replaced."""
        return leading_steps(strength, self.steps, self.injection_end)

    @property
    def confined_by(self) -> ConfinedBy | None:
        """The latents of the source, which its inversion has for each step."""
        return "latent"

    def confined_to_words(self) -> Self:
        """Return a copy with ``local_blend``."""
        return self.model_copy(update={"local_blend": True})

    @property
    def previews(self) -> bool:
        """Whether it has ``preview``."""
        return self.preview

    @property
    def draws(self) -> bool:
        """Whether the noise is drawn: any other inversion finds the one noise of an image."""
        return self.inversion == "virtual"

    def drawn(self, seed: int) -> Self:
        """Return a copy that draws its noise by ``seed``."""
        return self.model_copy(update={"seed": seed})

    @property
    def image_seed(self) -> int | None:
        """The seed of every random draw."""
        return self.seed

    @property
    def loads_weights(self) -> bool:
        """Prompt-to-prompt edits with a Stable Diffusion model."""
        return True

    @property
    def needs_gradient(self) -> bool:
        """Whether an embedding is optimised."""
        return self.inversion == "null-text"

    @property
    def reconstruction_cost(self) -> float:
        """The evaluations of the inversion of one image."""
        if self.inversion == "virtual":
            return 0.0
        if self.inversion == "null-text":
            # Inverted, rolled out with guidance, and optimised: each inner step goes forward and back.
            return float(self.steps * (1 + GUIDED + self.inner_steps * (1 + BACKWARD)))
        return float(self.steps)

    def edit_cost(self, strengths: Sequence[float]) -> float:
        """Return the evaluations of one edit, apart from the inversion."""
        # The images of a sweep are one until each leaves at its own share of the steps.
        branches = 1 + sum(1 - strength for strength in strengths)
        source = 1 if self.inversion == "virtual" else 0
        return float(self.steps * (GUIDED * branches + source))

    def most_evaluations(self, images: int) -> int:
        """Return the evaluations of so many images that part at the first step."""
        return GUIDED * self.steps * images
