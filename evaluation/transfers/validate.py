"""``make validate-transfers``: images that fool one classifier, shown to its copy and to all others.

    python -m evaluation.transfers --captions 20 --processes 2

Trains a copy of one of the suite's classifiers from another seed, makes an adversarial dataset of each of the
suite's four by the product's own code in this process, and shows it to all of them and to the copy.
Every classifier, image, caption and run is kept, so that a killed evaluation goes on.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import load_suite
from counterpose_core.types import Estimate
from counterpose_gateway.runs.context import RunContext
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.rendered import as_tensor
from counterpose_miniature.training.stage import save_array, use_threads, write_atomically
from evaluation.hunt_validity.engines import load_engines
from evaluation.in_process import HeldLedger, context_of
from evaluation.paths import RESULTS, STATE
from evaluation.validity.roster import SUITE

from .figures import cells_of, contrasts_of, dataset_of, distances_of, relations_of
from .report import Setting, TransferReport
from .roster import COPIES, SOURCES, folder_of
from .scenes import CLASSES, USUAL, WILD, rendered, stored
from .study import Study
from .training import train

OUT = RESULTS / "transfers.json"
SEED = 11


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-transfers", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=800, help="wild scenes that are looked at")
    parser.add_argument("--real", type=int, default=1000, help="usual scenes to measure distances from")
    parser.add_argument("--captions", type=int, default=20, help="most captions of a dataset")
    parser.add_argument("--samples", type=int, default=32, help="most images of a caption")
    parser.add_argument("--kept", type=int, default=16, help="most images that are kept of a caption")
    parser.add_argument("--images", type=int, default=672, help="most images of a dataset, with baselines")
    parser.add_argument("--baseline", type=int, default=24, help="images of each label alone")
    parser.add_argument("--steps", type=int, default=5, help="denoising steps")
    parser.add_argument("--processes", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--part", help="work of one of the processes, as 0/2")
    parser.add_argument("--report", action="store_true", help="only report what is done")
    parser.add_argument("--state", type=Path, default=STATE / "transfers", help="folder of finished pieces")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Share the work among processes, then report; or do one process's part."""
    given = parsed(arguments)
    use_threads(1)
    if given.part:
        own_part, parts = map(int, given.part.split("/"))
        _work(given, own_part, parts)
        return
    if not given.report:
        own = list(sys.argv[1:] if arguments is None else arguments)
        shares = [f"{number}/{given.processes}" for number in range(given.processes)]
        command = [sys.executable, "-m", "evaluation.transfers", *own]
        workers = [subprocess.Popen([*command, "--part", part]) for part in shares]
        if any(code != 0 for code in [worker.wait() for worker in workers]):
            raise SystemExit("a part ended early: start again to resume it")
    report(given)


def _work(given: argparse.Namespace, number: int, parts: int) -> None:
    state, log = given.state.absolute(), logging.getLogger(__name__)
    for copy in COPIES[number::parts]:
        train(copy, state / "classifiers", state / "training", log)
    suite = load_suite(SUITE)
    engines = load_engines(suite, state / "classifiers", state)

    def context(ledger: HeldLedger) -> RunContext:
        engines.refresh()
        return context_of(engines.services, engines.store, suite, ledger)

    study = _study(given, context)
    for source in SOURCES[number::parts]:
        began = time.process_time()
        study.dataset(source, mistaken=True)
        # Another process may still be training one of the others.
        while not all(copy.done(study.models).exists() for copy in COPIES):
            time.sleep(5.0)
        study.row(source)
        sys.stdout.write(f"{source}: {time.process_time() - began:.0f} s of the processor\n")
        sys.stdout.flush()


def _study(given: argparse.Namespace, context: Callable[[HeldLedger], RunContext] | None = None) -> Study:
    state = given.state.absolute()
    shared: dict[str, Any] = {
        "captions": given.captions,
        "samples": given.samples,
        "most_kept": given.kept,
        "images": given.images,
        "baseline": given.baseline,
        "reference_images": given.real,
        "steps": given.steps,
        "seed": SEED,
    }
    store = BlobStore(str(state / "store"))
    datasets = {
        name: stored(*_scenes(name, count, state / "scenes"), store)
        for name, count in ((WILD, given.seeds), (USUAL, given.real))
    }
    models = state / "classifiers"
    return Study(shared, datasets, models, state / "runs", context)


def _scenes(name: str, count: int, folder: Path) -> tuple[np.ndarray, list[str]]:
    per_class = count // len(CLASSES)
    images, labels = folder / f"{name}-{per_class}.npy", folder / f"{name}-{per_class}-labels.npy"
    if not (images.exists() and labels.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        made, shown = rendered(name, per_class)
        save_array(images, made)
        save_array(labels, np.array(shown))
    return np.load(images), [str(label) for label in np.load(labels)]


def wild_failures(images: np.ndarray, labels: Sequence[str], study: Study) -> dict[str, Estimate]:
    """How often each classifier fails on wild scenes, uint8 [n, 64, 64, 3], as they are rendered."""
    truth, found = np.array([CLASSES.index(label) for label in labels]), {}
    for column in study.columns:
        answers = Predictor(folder_of(column, study.models))(as_tensor(images)).argmax(dim=1).numpy()
        found[column] = proportion(int((answers != truth).sum()), len(truth))
    return found


def report(given: argparse.Namespace) -> None:
    """Compare what is done and write the result file."""
    study = _study(given)
    rows = [row for source in SOURCES if (row := study.row(source)) is not None]
    cells = [cell for row in rows for cell in cells_of(row)]
    images, labels = _scenes(WILD, given.seeds, given.state.absolute() / "scenes")
    made = TransferReport(
        setting=Setting(
            request=dict(study.shared),
            suite=SUITE,
            seeds=len(study.datasets[WILD]),
            real_images=len(study.datasets[USUAL]),
            columns=study.columns,
            wild_failures=wild_failures(images, labels, study),
        ),
        datasets=[dataset_of(row) for row in rows],
        cells=cells,
        contrasts=[contrast for row in rows for contrast in contrasts_of(row)],
        relations=relations_of(rows, cells),
        distances=distances_of(rows, SEED),
    )
    write_atomically(given.out, f"{made.model_dump_json(indent=2)}\n".encode())
    for shared in made.relations:
        sys.stdout.write(f"{shared.relation}: {shared.rate}\n")
    sys.stdout.write(f"{given.out} written: {len(rows)} of {len(SOURCES)} datasets\n")
