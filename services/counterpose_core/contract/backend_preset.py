"""What is read of an editor's settings outside the backend that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from counterpose_core.contract.base import RequestBody
from counterpose_core.contract.editor_backends import CAPABILITIES, Capabilities, EditorBackend
from counterpose_core.contract.regions import ConfinedBy, RegionOfEdits
from counterpose_core.errors import InvalidRequest

BACKWARD = 2
"""Evaluations that cost as much as one pass back through the network."""
GUIDED = 2
"""Evaluations of a guided step: with the caption and without it."""

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]

SamplingSteps = Annotated[int, Field(ge=1, le=100, description="Number of sampling steps.")]
Guidance = Annotated[
    float, Field(ge=1.0, le=30.0, description="Scale of classifier-free guidance; 1 turns guidance off.")
]


class BackendPreset(RequestBody):
    """The settings of edits by one backend, as suites, gateway and reports read them.

    Each backend has a preset of its own, with fields that no other code names. What is here is true of a
    backend without levels, previews or a network; a backend that has them says more.
    """

    backend: EditorBackend
    """How the editor makes its images."""
    # Presets are hashed: those without it have the keys of before.
    region: RegionOfEdits | None = Field(default=None, exclude_if=lambda region: region is None)
    """Where edits may change an image if the request does not say; null for everywhere."""

    @classmethod
    def of(cls, preset: BackendPreset) -> Self:
        """Return a preset that is this backend's own; raises InvalidRequest if it is another's."""
        if not isinstance(preset, cls):
            raise InvalidRequest(f"a preset of the backend {preset.backend!r} is not a {cls.__name__}")
        return preset

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return CAPABILITIES[self.backend]

    @property
    def sweep(self) -> tuple[float, ...]:
        """The strengths at which an edit is tried, in order: one where the backend has no levels."""
        return (1.0,)

    def with_sweep(self, strengths: Sequence[float]) -> Self:
        """Return a copy that tries edits at ``strengths``; raises InvalidRequest without levels."""
        raise InvalidRequest(f"the editor's backend {self.backend!r} has no strengths; leave {strengths} out")

    def level(self, strength: float) -> float:
        """Return the level that a strength comes to: those of one level give the same image."""
        return strength

    @property
    def confined_by(self) -> ConfinedBy | None:
        """What keeps an image outside the region of its edit, or None where the backend has no regions."""
        return None

    def confined_to_words(self) -> Self:
        """Return a copy whose edits stay where the changed words are; raises InvalidRequest without."""
        raise InvalidRequest(
            f"the editor's backend {self.backend!r} cannot tell where words are in an image; name another "
            "region",
            pointer="/region",
        )

    @property
    def previews(self) -> bool:
        """Whether the choice from the sweep is made by small images, before one is decoded in full."""
        return False

    @property
    def draws(self) -> bool:
        """Whether it makes several images by one edit of one image, which differ by chance alone."""
        return not self.capabilities.seeded

    def drawn(self, seed: int) -> Self:
        """Return the settings of one draw, which depends on ``seed`` if the backend is seeded."""
        return self

    @property
    def image_seed(self) -> int | None:
        """The seed by which its images can be made again, or None where none makes them."""
        return None

    @property
    def loads_weights(self) -> bool:
        """Whether the suite's ``model`` is a folder of weights that the backend loads."""
        return False

    @property
    def calls_server(self) -> bool:
        """Whether the suite's ``model`` is a name at the suite's ``server``, which makes the images."""
        return False

    @property
    def needs_gradient(self) -> bool:
        """Whether an edit takes the memory of a pass back through the network."""
        return False

    @property
    def reconstruction_cost(self) -> float:
        """About how many network evaluations the reconstruction of one image takes, a pass back as two."""
        return 0.0

    def edit_cost(self, strengths: Sequence[float]) -> float:
        """Return about how many evaluations one edit at ``strengths`` takes after the reconstruction."""
        return float(len(strengths))

    def most_evaluations(self, images: int) -> int:
        """Return how many evaluations an edit that makes so many images takes at most."""
        return images
