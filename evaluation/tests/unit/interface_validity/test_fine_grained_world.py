"""The fine-grained dataset: six kinds of one object, named by codes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from counterpose_miniature.world.dataset import write_image_folder
from counterpose_miniature.world.seeds import DEVELOPMENT
from evaluation.interface_validity.fine_grained_world import (
    FINE_CLASSES,
    INITIALISER,
    code_of,
    fine_grained_scenes,
)


def test_fine_grained_classes_are_kinds_of_one_object_named_by_codes(tmp_path: Path) -> None:
    scenes = list(fine_grained_scenes(DEVELOPMENT, 0, 3))
    assert Counter(map(code_of, scenes)) == dict.fromkeys(FINE_CLASSES, 3)
    assert {scene.object_class for scene in scenes} == {INITIALISER}
    assert len({scene.nuisance for scene in scenes}) == len(scenes)
    paths = write_image_folder(tmp_path, scenes, code_of)
    assert {path.parent.name for path in paths} == set(FINE_CLASSES)
