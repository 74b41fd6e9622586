"""Calibrates the thresholds of the image gate on development edits, without the oracle.

    python -m evaluation.edit_quality.calibrate_gate --scenes 60 --right 0.95

Development scenes are edited as the grammar says, one edit per scene and type. The served captioner
decides whether each edit is right: changed as asked, nothing else changed. Of all thresholds whose kept
edits are right often enough, those that keep the most edits are printed: each good edit that is dropped
costs some cell an image.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.scorer import EditScores
from counterpose_core.suite import Suite, load_suite
from counterpose_core.types import EDIT_TYPES
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import Edit, edits, parse
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import ATTRIBUTES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.edit_quality.scoring import scored
from evaluation.paths import SUITE_WEIGHTS

FIRST_SCENE = 1_000_000
GRID = 10
CRITERIA = ("direction", "image_image", "image_text")
STREAM = 0xCA11


@dataclass(frozen=True)
class Row:
    """One edit at its best sweep value."""

    edit_type: str
    scores: EditScores
    right: bool
    hit: bool


class Suites:
    """The engines of one suite, around one store."""

    def __init__(self, suite: Suite, store: BlobStore) -> None:
        self.suite, self.store = suite, store
        self.captioner = CaptionerEngine.load(suite.captioner, SUITE_WEIGHTS, store)
        self.editor = EditorEngine.load(suite.editor, SUITE_WEIGHTS, store)
        self.scorer = ScorerEngine.load(suite.scorer, SUITE_WEIGHTS, store)

    def rows(self, scene: Scene, preset: str) -> list[Row]:
        """Edit one scene once a type and judge what came of it."""
        chosen = [drawn_edit(scene, edit_type) for edit_type in EDIT_TYPES]
        image = self.store.put(encode_png(render(scene)))
        items = [EditItem(image=image, caption=e.caption, edited_caption=e.edited_caption) for e in chosen]
        request = EditRequest(items=items, preset=self.suite.editor.presets[preset])
        outcomes = [outcome.unwrap() for outcome in self.editor.edit(request).outcomes]
        return [
            self._row(scene, edit, item, [variant.image for variant in outcome.variants])
            for edit, item, outcome in zip(chosen, items, outcomes, strict=True)
        ]

    def _row(self, scene: Scene, edit: Edit, item: EditItem, variants: Sequence[str]) -> Row:
        scores = scored(self.scorer, item, variants)
        best = max(range(len(scores)), key=lambda index: scores[index].direction)
        captioned = self.captioner.caption(CaptionRequest(items=[CaptionItem(image=variants[best])]))
        seen, wanted = parse(captioned.outcomes[0].unwrap().text), edit.scene_after.attributes()
        right = all(seen.get(name) == wanted[name] for name in ATTRIBUTES)
        return Row(edit.edit_type, scores[best], right, seen.get(edit.attribute) == edit.new)


def drawn_edit(scene: Scene, edit_type: str) -> Edit:
    """One of the scene's edits of a type that keep its class, drawn by the scene's own seed."""
    generator = np.random.default_rng([scene.nuisance, STREAM])
    kept = [edit for edit in edits(scene, edit_type, 0) if edit.attribute != "object_class"]
    return kept[int(generator.integers(len(kept)))]


def criteria(scores: EditScores) -> tuple[float, float, float]:
    """The values that the gate compares with its thresholds, in the order of ``CRITERIA``."""
    return scores.direction, scores.image_image, min(scores.text_original, scores.text_edited)


def best(rows: Sequence[Row], wanted: float) -> dict[str, Any]:
    """The thresholds that keep most edits while a share ``wanted`` of the kept is right."""
    scores = np.array([criteria(row.scores) for row in rows])
    closer = np.array([row.scores.text_edited > row.scores.text_edited_source for row in rows])
    right = np.array([row.right for row in rows])
    types = np.array([row.edit_type for row in rows])
    grids = [np.quantile(column, np.linspace(0.0, 0.7, GRID)) for column in scores.T]
    found: dict[str, Any] = {"kept": 0.0}
    for thresholds in product(*grids):
        kept = closer & (scores >= np.array(thresholds)).all(axis=1)
        if kept.mean() > found["kept"] and right[kept].mean() >= wanted:
            by_type = {name: float(kept[types == name].mean()) for name in EDIT_TYPES}
            named = dict(zip(CRITERIA, map(float, thresholds), strict=True))
            found = {
                "right": float(right[kept].mean()),
                "kept": float(kept.mean()),
                "kept_by_type": by_type,
                **named,
            }
    return found


def by_type(rows: Sequence[Row]) -> dict[str, Any]:
    """The outcome of every edit, unfiltered."""
    return {
        name: {
            "n": sum(row.edit_type == name for row in rows),
            "hit": float(np.mean([row.hit for row in rows if row.edit_type == name])),
            "right": float(np.mean([row.right for row in rows if row.edit_type == name])),
        }
        for name in EDIT_TYPES
    }


def main() -> None:
    """Edit, judge and print the thresholds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=60, help="number of development scenes")
    parser.add_argument("--preset", default="quick", help="preset of the suite's editor")
    parser.add_argument("--right", type=float, default=0.95, help="share of kept edits that must be right")
    parser.add_argument("--rows", type=Path, help="also write each edit's scores to this file, as JSON lines")
    arguments = parser.parse_args()
    scenes = [scene_for(DEVELOPMENT, FIRST_SCENE + index, DATASET) for index in range(arguments.scenes)]
    with tempfile.TemporaryDirectory() as folder:
        suites = Suites(load_suite("miniature"), BlobStore(folder))
        rows = [row for scene in tqdm(scenes) for row in suites.rows(scene, arguments.preset)]
    if arguments.rows is not None:
        lines = [json.dumps(asdict(row) | {"scores": row.scores.model_dump()}) + "\n" for row in rows]
        arguments.rows.write_text("".join(lines), encoding="utf-8")
    figures = {"unfiltered": by_type(rows), "gate": best(rows, arguments.right)}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
