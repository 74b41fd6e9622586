"""What a validation of dataset interfaces covers: seeds, images and classifiers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.blobs import cache_key
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.suite import load_suite
from counterpose_miniature.training import zoo
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import SeedRange
from counterpose_miniature.world.user_dataset import interface_scenes
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity.contestants import WEIGHTS
from evaluation.validity.order import weights_below
from evaluation.validity.roster import SUITE
from evaluation.validity.serving import STACK

from .images import Layout
from .world_shifts import BASE_PROMPT, WORLD_SHIFTS, WorldShift

CLASSES = VALUES["object_class"]
LEARNED_FROM, THRESHOLDS_FROM, TRUTH_FROM = 0, 1, 2
"""Parts of a stretch of seeds."""

REHEARSED_STEPS = 2


@dataclass(frozen=True, kw_only=True)
class Order:
    """A stretch of a split's seeds, with the numbers of images of each class; ``state`` keeps its pieces.

    ``zoo`` is a folder of trained members; without it they are trained. A ``smoke`` run rehearses: its
    zoo and tokens learn for a few steps. ``most_shifts`` limits the shifts to the first ones.
    """

    state: Path
    split: SeedRange
    number: int
    learned: int = 48
    thresholds: int = 60
    truth: int = 150
    images: int = 12
    most_shifts: int = len(WORLD_SHIFTS)
    zoo: Path | None = None
    smoke: bool = False

    @property
    def shifts(self) -> tuple[WorldShift, ...]:
        """The shifts that are validated."""
        return WORLD_SHIFTS[: self.most_shifts]

    @property
    def steps(self) -> int | None:
        """How many steps tokens learn; None for the suite's number."""
        return REHEARSED_STEPS if self.smoke else None

    @property
    def folder(self) -> Path:
        """The folder of this stretch's pieces."""
        return self.state / f"{self.split.name}-{self.number}"

    @property
    def stack(self) -> Path:
        """The state folder of this stretch's stack: each stretch has its own zoo under the same names."""
        return self.folder / STACK

    @property
    def models(self) -> Path:
        """The folder that holds the zoo."""
        # A rehearsal's classifiers must never be taken for trained ones.
        made = f"zoo-{self.number}{'-smoke' if self.smoke else ''}"
        return self.zoo or self.state / made

    @property
    def specs(self) -> dict[str, Path]:
        """The names of the zoo's members in a benchmark's request, and the folder of each."""
        return {f"local:{member.name}": self.models / member.name for member in zoo.MEMBERS}

    @property
    def layout(self) -> Layout:
        """The layout of tables."""
        return Layout((BASE, *(shift.name for shift in self.shifts)), CLASSES, tuple(self.specs))

    def train_zoo(self) -> None:
        """Train the members that are missing, on images whose seeds only classifiers use."""
        if self.zoo is not None:
            return
        given = ["--seed", str(1 + self.number), "--out", str(self.models)]
        given += ["--work", str(self.models / "work"), *(["--smoke"] if self.smoke else [])]
        zoo.main(given)

    def scenes(self, part: int, per_class: int) -> dict[str, list[Scene]]:
        """Scenes of a part of the stretch, by class."""
        found: dict[str, list[Scene]] = {name: [] for name in CLASSES}
        for scene in interface_scenes(self.split, self.number, per_class, part=part):
            found[scene.object_class].append(scene)
        return found

    def interface_key(self) -> str:
        """The key of a dataset interface: everything its tokens depend on except the code."""
        return cache_key(learned=self.learned, steps=self.steps, **_suite())[:16]

    def benchmark_key(self) -> str:
        """The key of a shift benchmark; the zoo must be trained."""
        return cache_key(
            interface=self.interface_key(),
            images=self.images,
            thresholds=self.thresholds,
            base=BASE_PROMPT,
            shifts=[shift.text for shift in self.shifts],
            classifiers={spec: _digest(folder) for spec, folder in self.specs.items()},
        )[:16]


def _suite() -> dict[str, object]:
    return {"suite": load_suite(SUITE), "weights": weights_below(SUITE_WEIGHTS)}


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
