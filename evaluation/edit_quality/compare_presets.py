"""Compares presets of the editor on the same edits, without a running gateway.

    python -m evaluation.edit_quality.compare_presets --scenes 60 --mode quick --mode null-text \
        --mode '{"name": "eight", "base": "quick", "steps": 8}' --against quick --out modes.json

Development scenes are edited as the grammar says, one edit of each type. The scorer and the gate choose
from the sweep as the gateway does, and the oracle judges the choice. A mode is a preset of the suite, or
a JSON object of changes to one. Modes take turns scene by scene, so that a busy machine slows all of them
alike. --rows keeps finished edits in a folder, and a later run makes only what is missing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch
from tqdm import tqdm

from counterpose_core.blobs import cache_key
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.suite import Suite, load_suite
from evaluation.edit_quality.comparing import Comparison, difference, figures
from evaluation.edit_quality.measuring import Row, Workshop
from evaluation.edit_quality.trials import FIRST_SCENE, Drawn, trial
from evaluation.former_names import renamed


class Notes:
    """Rows of one mode by scene, on disk where there is a folder."""

    def __init__(self, folder: Path | None, name: str, preset: PromptToPromptPreset, about: str) -> None:
        self._file = None
        self.preset, self.rows = preset, list[Row]()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            key = cache_key(preset=preset, about=about)
            self._file = folder / f"{name}-{key[:12]}.jsonl"
            if self._file.exists():
                lines = self._file.open(encoding="utf-8")
                self.rows = [Row.model_validate(renamed(json.loads(line))) for line in lines]

    def has(self, index: int) -> bool:
        """Whether rows of the scene exist."""
        return any(row.trial == index for row in self.rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Store the rows of one scene."""
        self.rows += rows
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(row.model_dump_json() + "\n" for row in rows)


def mode_of(text: str, suite: Suite) -> tuple[str, PromptToPromptPreset]:
    """Read a mode: the name of a preset, or an object with ``name``, ``base`` and what it changes."""
    if not text.startswith("{"):
        return text, PromptToPromptPreset.of(suite.editor.presets[text])
    changes = json.loads(text)
    name, base = changes.pop("name"), changes.pop("base", suite.editor.default_preset)
    return name, PromptToPromptPreset.model_validate(suite.editor.presets[base].model_dump() | changes)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="miniature", help="suite whose presets are compared")
    parser.add_argument("--scenes", type=int, default=30, help="number of development scenes")
    parser.add_argument("--first", type=int, default=FIRST_SCENE, help="index of the first development scene")
    parser.add_argument(
        "--edits",
        default="all",
        choices=get_args(Drawn),
        help="edits to draw from: all, or those that add or remove words",
    )
    parser.add_argument("--mode", action="append", required=True, dest="modes", help="preset or JSON object")
    parser.add_argument("--against", action="append", default=[], help="mode to compare the others with")
    parser.add_argument(
        "--selection", default="paper", choices=["paper", "released"], help="rule that chooses from the sweep"
    )
    parser.add_argument("--rows", type=Path, help="folder that keeps finished edits")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    return parser.parse_args()


def main() -> None:
    """Edit, judge, compare and write the result file."""
    given = parsed()
    torch.set_num_threads(1)
    suite = load_suite(given.suite)
    about = f"{given.suite} {given.first} {given.selection} {given.edits}"
    notes = {
        name: Notes(given.rows, name, preset, about)
        for name, preset in (mode_of(text, suite) for text in given.modes)
    }
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(suite, Path(folder), given.selection)
        for index in tqdm(range(given.scenes)):
            for name, noted in notes.items():
                if not noted.has(index):
                    noted.add(workshop.rows(name, noted.preset, trial(index, given.first, given.edits)))
    wanted = {name: [row for row in noted.rows if row.trial < given.scenes] for name, noted in notes.items()}
    comparison = Comparison(
        first_scene=given.first,
        selection=given.selection,
        modes={name: figures(rows, notes[name].preset) for name, rows in wanted.items()},
        differences={
            reference: {
                name: difference(rows, wanted[reference])
                for name, rows in wanted.items()
                if name != reference
            }
            for reference in given.against
        },
    )
    given.out.write_text(comparison.model_dump_json(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
