"""Compares the rule k of n with CLIP alone at equal yield, on edits whose truth is rendered.

    python -m evaluation.judges [--scenes 600] [--state FOLDER] [--out FILE]

A rendering server obeys half of the edits, and ignores or overdoes the others. CLIP's gate, a captioner
and the suite's encoder judge its images; scripted judges, whose rows are headed "simulation of the rule",
turn the truth round at a stated rate. What is said of a scene is kept, and a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.suite import load_suite
from evaluation.edit_quality.trials import trial
from evaluation.judges.edits import FIRST_SCENE, Row
from evaluation.judges.figures import figures
from evaluation.judges.panel import Panel
from evaluation.paths import RESULTS, STATE

SEED = 0


def measured(scenes: int, state: Path) -> list[Row]:
    """Return the rows of the first scenes, measured now or by an earlier run."""
    rows = list[Row]()
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        panel = Panel(load_suite("miniature"), BlobStore(folder))
        for index in tqdm(range(scenes), disable=None):
            file = state / f"scene-{index:05}.json"
            if not file.is_file():
                found = [asdict(row) for row in panel.rows(trial(index, FIRST_SCENE))]
                part = file.with_suffix(".part")
                part.write_text(json.dumps(found), encoding="utf-8")
                part.replace(file)
            rows += [Row(**one) for one in json.loads(file.read_bytes())]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=600, help="scenes, each with up to five edits")
    parser.add_argument("--state", type=Path, default=STATE / "judges", help="folder of what is measured")
    parser.add_argument("--out", type=Path, default=RESULTS / "judges.json")
    given = parser.parse_args(arguments)
    text = json.dumps(figures(measured(given.scenes, given.state), SEED), indent=1, ensure_ascii=False)
    given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
