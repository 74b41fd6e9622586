"""The demo's stress test over the engines in this process: no services, no gateway, no database.

`python -m evaluation.product_speed.bare_engines PER_CLASS OUT` renders the demo's images, loads the suite's
engines, works the run off and writes what it took, as `contestant.py` does for a whole stack.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.services.ports import Services
from counterpose_miniature.training.held_out import held_out
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.seeds import DEVELOPMENT, balanced_scenes
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.in_process import HeldLedger, context_of, work_off
from evaluation.paths import SUITE_WEIGHTS
from evaluation.product_speed.contestant import CLASSIFIERS, EDITS, SEED
from evaluation.transfers.scenes import stored


@dataclass(frozen=True)
class Bare:
    """An engine as a port: each verb is a call of the engine in this thread."""

    engine: Any

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        call = getattr(self.engine, verb)

        async def called(*arguments: Any) -> Any:
            return call(*arguments)

        return called


def engines(store: BlobStore) -> Services:
    """Load the suite's engines."""
    suite, root = load_suite("miniature"), SUITE_WEIGHTS
    loaded = (
        CaptionerEngine.load(suite.captioner, root, store),
        PerturberEngine.load(suite.perturber, root),
        EditorEngine.load(suite.editor, root, store),
        ScorerEngine.load(suite.scorer, root, store),
        ClassifiersEngine.load(suite.classifiers, root, store, ClassifierOptions()),
    )
    return Services(*(cast(Any, Bare(engine)) for engine in loaded))


def main(per_class: str, out: str) -> None:
    """Work the run off and write its times."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(folder)
        scenes = list(balanced_scenes(DEVELOPMENT, held_out(), int(per_class)))
        sources = stored(
            np.stack([render(scene) for scene in scenes]), [scene.object_class for scene in scenes], store
        )
        services = engines(store)
        context = context_of(services, store, load_suite("miniature"), HeldLedger({"demo": sources}))
        create = StressTestCreate(
            dataset="demo",
            classifiers=list(CLASSIFIERS),
            max_edits_per_image=EDITS,
            seed=SEED,
            confirm=False,
        )
        began, worked = time.monotonic(), time.process_time()
        ended = work_off(STRESS_TEST, create, context)
        told = {
            "run_s": time.monotonic() - began,
            "run_processor_s": time.process_time() - worked,
            "counts": ended.run.request_counts.model_dump(),
        }
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
