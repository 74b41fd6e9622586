"""Gates two networks by failure point, through a stack of its own: one is tuned on blurred images.

    python -m evaluation.gate.failure_points --work FOLDER --out evaluation/results/gate-failure-points.json

Trains both networks from their checkpoints on (some minutes of a core), draws scenes of the world at 256
pixels, and gates each network against the other, and the tuned one against its copy. With ``--photographs``,
the state folder of `counterpose demo photographs`, two of that demo's networks are gated on its few images,
too. Ends with 1 if a gate comes out otherwise than it must.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from counterpose import Client
from counterpose._stack import open_stack
from counterpose_core.contract.gates import FAILURE_POINT, GateCell, GateOutcome
from counterpose_miniature.world import DATASET
from counterpose_miniature.world.renderer import drawn
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from evaluation.gate.networks import COPY, INPUT, SHARP, TUNED, train

PER_CLASS = 50
FIRST = 9_500_000
"""Where the scenes of the gates begin in the validation split."""
SEED = 0
SIDE = 256
log = logging.getLogger(__name__)

WORLD, PHOTOGRAPHS = "scenes", "photographs"
OPERATIONS = {
    # A blur, and one level of what neither network saw.
    WORLD: ("gaussian-blur", "greyscale"),
    PHOTOGRAPHS: ("gaussian-blur", "motion-blur", "gaussian-noise", "darker", "occlusion-bottom"),
}
SMALL, LARGE = "efficientnet-lite0", "efficientnet-lite1"
GATES: dict[str, list[tuple[str, str, tuple[GateOutcome, ...]]]] = {
    WORLD: [
        (SHARP, TUNED, ("failed",)),
        (TUNED, SHARP, ("passed", "inconclusive")),
        (COPY, TUNED, ("passed",)),
    ],
    PHOTOGRAPHS: [(LARGE, SMALL, ("inconclusive",))],
}
"""The candidate and the incumbent of each gate on a dataset, and the outcomes that it may have."""


def scenes(folder: Path) -> None:
    """Draw the scenes of the gates as a folder of images, one subfolder for each class."""
    found = balanced_scenes(VALIDATION, DATASET, PER_CLASS, FIRST)
    for number, scene in enumerate(tqdm(found, desc="draw", mininterval=5)):
        (folder / scene.object_class).mkdir(parents=True, exist_ok=True)
        drawn(scene).save(folder / scene.object_class / f"{number:05}.png")


def gated(client: Client, name: str, folder: Path) -> list[dict[str, Any]]:
    """Freeze a run at every level of the operations, and gate each candidate on it."""
    client.datasets.upload(folder, name=name)
    run = client.stress_tests.create(
        dataset=name,
        classifiers=[f"local:{GATES[name][0][1]}"],
        seed=SEED,
        transforms={"operations": OPERATIONS[name], "severity": "grid"},
    )
    frozen = client.gates.freeze(run.wait().id)
    rows = []
    for candidate, incumbent, expected in GATES[name]:
        gate = client.gates.create(
            baseline=frozen,
            classifiers=[f"local:{candidate}"],
            incumbent=f"local:{incumbent}",
            seed=SEED,
        )
        told = gate.wait().summary()
        cells = [cell for cell in told.cells if cell.label is None]
        row = {
            "dataset": name,
            "candidate": candidate,
            "incumbent": incumbent,
            "operations": list(OPERATIONS[name]),
            "sources": frozen.sources,
            "expected": list(expected),
            "outcome": told.outcome,
            "verdict": told.verdict,
            "tested": told.tested,
            "states": dict(Counter(cell.state for cell in told.cells)),
            "cells": [_told(each) for each in cells if each.change is None or FAILURE_POINT in each.change],
        }
        rows.append(row)
        log.info("%s against %s: %s", candidate, incumbent, told.verdict)
    return rows


def _told(cell: GateCell) -> dict[str, Any]:
    shown = {"state", "regression", "candidate", "incumbent", "needed", "p_adjusted"}
    return {"cell": cell.name, **cell.model_dump(mode="json", include=shown)}


def figures(work: Path, photographs: Path | None) -> dict[str, Any]:
    """Train, draw, and gate on a stack whose classifiers are those of ``work``."""
    models = work / "classifiers"
    train(models, work / "training")
    folders = {WORLD: work / WORLD}
    if not folders[WORLD].exists():
        part = work / f"{WORLD}.part"
        shutil.rmtree(part, ignore_errors=True)
        scenes(part)
        part.rename(folders[WORLD])
    if photographs is not None:
        folders[PHOTOGRAPHS] = photographs / "datasets/demo-photographs"
        for name in (SMALL, LARGE):
            shutil.copytree(photographs / "models" / name, models / name, dirs_exist_ok=True)
    os.environ["COUNTERPOSE_SERVICES_MODELS_FOLDER"] = str(models)
    stack = open_stack(work / "stack", any_port=True, suite=PHOTOGRAPHS, tell=log.info)
    with stack.temporarily(lambda _: None), Client(stack.url) as client:
        rows = [row for name, folder in folders.items() for row in gated(client, name, folder)]
    holds = all(row["outcome"] in row["expected"] for row in rows)
    return {
        "side": SIDE,
        "input": INPUT,
        "seed": SEED,
        "gates": rows,
        "holds": holds,
    }


def main() -> int:
    """Measure, write the result file, and return whether a gate came out otherwise than it must."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of networks, images and the stack")
    parser.add_argument("--photographs", type=Path, help="state folder of `counterpose demo photographs`")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    found = figures(given.work.absolute(), given.photographs)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return int(not found["holds"])


if __name__ == "__main__":
    sys.exit(main())
