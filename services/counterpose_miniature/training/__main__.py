"""Trains the miniature suite: python -m counterpose_miniature.training [stage ...] [--smoke]."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from counterpose_miniature.training.stage import StageContext

# In order: later stages read the output of earlier ones from the working folder.
STAGES: dict[str, str] = {
    "autoencoder": "counterpose_miniature.training.autoencoder",
    "clip": "counterpose_miniature.training.clip",
    "latents": "counterpose_miniature.training.latents",
    "decoder": "counterpose_miniature.training.decoder",
    "denoiser": "counterpose_miniature.training.denoiser",
    "preview": "counterpose_miniature.training.preview",
    "classifiers": "counterpose_miniature.training.classifiers",
    "zoo": "counterpose_miniature.training.zoo",
    "captioner": "counterpose_miniature.training.captioner",
    "language": "counterpose_miniature.training.language",
    "perturber": "counterpose_miniature.training.perturber",
    "segmenter": "counterpose_miniature.training.segmenter",
    "encoder": "counterpose_miniature.training.encoder",
}
_WEIGHTS = Path(__file__).parents[1] / "suite" / "weights"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named stages, or all, in order; finished stages are skipped."""
    parser = argparse.ArgumentParser(prog="python -m counterpose_miniature.training", description=__doc__)
    parser.add_argument(
        "stages", nargs="*", metavar="stage", help=f"any of: {', '.join(STAGES)}; default: all"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes: checks the stages, trains nothing useful"
    )
    parser.add_argument("--out", type=Path, default=None, help="folder of the finished weights")
    parser.add_argument("--work", type=Path, default=None, help="folder of data, checkpoints and logs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    unknown = set(options.stages) - set(STAGES)
    if unknown:
        parser.error(f"unknown stages {sorted(unknown)!r}; choose from {', '.join(STAGES)}")
    context = _context(options)
    for stage in options.stages or STAGES:
        import_module(STAGES[stage]).train(context)


def _context(options: argparse.Namespace) -> StageContext:
    work = options.work or Path(".miniature/smoke" if options.smoke else ".miniature")
    # A rehearsal must never overwrite trained weights by default.
    out = options.out or (work / "weights" if options.smoke else _WEIGHTS)
    return StageContext(out=out, work=work, smoke=options.smoke, seed=options.seed, threads=options.threads)


if __name__ == "__main__":
    main()
