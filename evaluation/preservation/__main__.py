"""Sets the limits of preservation on one stretch of rendered edits, and holds them against another.

    python -m evaluation.preservation [--calibration 36] [--test 80] [--controls 24] [--state FOLDER]
        [--out FILE]

Each trial is a scene, a change that was asked for and its true counterfactual, as a server with some noise
returns it; then faults are planted. What is measured of a trial is kept, and a run that was ended goes on;
after a change of what is measured, give another folder. A trial takes a second of one core.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from evaluation.paths import RESULTS, STATE
from evaluation.preservation.figures import figures
from evaluation.preservation.planting import STRETCHES
from evaluation.preservation.trials import controls, rows


def measured(name: str, trials: int, scenes: int, state: Path) -> list[dict[str, Any]]:
    """Return the rows of a stretch's first trials and of its controls, measured now or by an earlier run."""
    stretch = STRETCHES[name]
    work = [(f"trial-{index:05}", partial(rows, stretch, index)) for index in range(trials)]
    work += [(f"control-{number:05}", partial(controls, stretch, number)) for number in range(scenes)]
    results: list[dict[str, Any]] = []
    for piece, measure in tqdm(work, desc=name, disable=None):
        file = state / name / f"{piece}.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(list(measure())), encoding="utf-8")
            part.replace(file)
        results += json.loads(file.read_bytes())
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both stretches and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calibration", type=int, default=36, help="trials that limits are set on")
    parser.add_argument("--test", type=int, default=80, help="trials that they are tested on")
    parser.add_argument("--controls", type=int, default=24, help="scenes of each size returned unchanged")
    parser.add_argument(
        "--state", type=Path, default=STATE / "preservation", help="folder of what is measured"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "preservation.json")
    given = parser.parse_args(arguments)
    stretches = {
        name: measured(name, getattr(given, name), given.controls, given.state) for name in STRETCHES
    }
    text = json.dumps(figures(stretches), indent=1, ensure_ascii=False)
    given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
