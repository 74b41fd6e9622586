"""What the contestants work on: images of the rendered world with their captions, and edits of these."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import counterpose_miniature
from counterpose_core.images.codecs import Pixels
from counterpose_core.suite import EditorSuite, load_suite
from counterpose_miniature.world.grammar import caption, edits
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import GENERATOR
from counterpose_miniature.world.scene import Scene, is_withheld
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for
from counterpose_services.editor.pipeline import Pipeline, load_pipeline

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
FIRST_SCENE = 7_000
"""The first of the development seeds that only the benchmark uses."""
EDIT_TYPES = ("background", "adjective", "domain")


@dataclass(frozen=True)
class Workload:
    """Images, their captions, and equally many edited captions of each."""

    images: list[Pixels]
    captions: list[str]
    edited_captions: list[list[str]]

    def first(self, images: int, edits: int) -> Workload:
        """Keep the first images, and the first edits of each."""
        kept = [captions[:edits] for captions in self.edited_captions[:images]]
        return Workload(self.images[:images], self.captions[:images], kept)


def drawn(images: int, edits: int) -> Workload:
    """Draw scenes of the development split, and their edits, alternating between types."""
    scenes = [scene_for(DEVELOPMENT, FIRST_SCENE + index, GENERATOR) for index in range(images)]
    return Workload(
        [render(scene) for scene in scenes],
        [caption(scene) for scene in scenes],
        [_edited_captions(scene, edits) for scene in scenes],
    )


def _edited_captions(scene: Scene, count: int) -> list[str]:
    by_type = [
        [edit.edited_caption for edit in edits(scene, kind) if not is_withheld(edit.scene_after)]
        for kind in EDIT_TYPES
    ]
    in_turn = [captions[turn] for turn in range(count) for captions in by_type if turn < len(captions)]
    return in_turn[:count]


def miniature() -> tuple[EditorSuite, Pipeline]:
    """Load the trained miniature generator."""
    suite = load_suite("miniature").editor
    return suite, load_pipeline(suite, WEIGHTS, device="cpu", dtype="float32")
