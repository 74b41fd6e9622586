"""The shifts that the world can render: in a benchmark's words, and as a change of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpose_core.shift_benchmark.shifts import BASE, Shift, shift_of
from counterpose_miniature.world.scene import Scene


@dataclass(frozen=True, slots=True)
class WorldShift:
    """A shift of a benchmark's request, and the one attribute that it changes in a scene."""

    text: str
    attribute: str
    value: str

    @property
    def shift(self) -> Shift:
        """The shift in a benchmark's request."""
        return shift_of(self.text)

    @property
    def name(self) -> str:
        """The shift's name in a benchmark."""
        return self.shift.name

    def of(self, scene: Scene) -> Scene:
        """The scene under the shift; everything else and every nuisance stays."""
        return scene.changed(self.attribute, self.value)

    def shown_by(self, seen: Mapping[str, str]) -> bool:
        """Whether an image with these attributes shows the shift."""
        return seen[self.attribute] == self.value


# This generator was trained on captions that always name a place; without one it draws a sketch half of the
# time. The base, and shifts that do not change the place, therefore name the dataset's most frequent one. The
# shifts include those of Table 1 that the world renders as meant ("in the beach" would be its sand).
BASE_PROMPT = "a photo of a <class> on the grass"
WORLD_SHIFTS: tuple[WorldShift, ...] = (
    WorldShift("in the snow", "background", "snow"),
    WorldShift("on the water", "background", "water"),
    WorldShift("among the flowers", "background", "flowers"),
    WorldShift("a photo of a <class> on the grass in the rain", "weather", "rain"),
    WorldShift("a photo of a <class> on the grass in the fog", "weather", "fog"),
    WorldShift("a photo of a <class> on the grass at night", "weather", "night"),
    WorldShift("a painting of a <class> on the grass", "style", "painting"),
    WorldShift("a sketch of a <class> on the grass", "style", "sketch"),
    WorldShift("a photo of a <class> on the grass next to a dog", "companion", "dog"),
    WorldShift("a photo of a <class> on the grass next to a person", "companion", "person"),
    WorldShift("a photo of a <class> on the grass next to a ball", "companion", "ball"),
)
BY_NAME: Mapping[str, WorldShift] = {shift.name: shift for shift in WORLD_SHIFTS}
CONDITIONS: tuple[str, ...] = (BASE, *BY_NAME)
"""The base and the shifts, by the names that a benchmark gives them."""
