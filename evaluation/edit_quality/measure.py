"""Judges every edited image of a stress test by the oracle.

    python -m evaluation.edit_quality.measure --preset quick --per-class 12 \
        --out evaluation/results/quality-quick.json

Needs a running gateway. An edit succeeds if the oracle sees every changed attribute at its new value; it
is faithful if the oracle sees all other attributes unchanged; its label is kept if the oracle still sees
the class. Each figure is given for the edits that the gate kept and for all edits, with the share kept.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from counterpose import Client, StressTest
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.runs import Item
from counterpose_core.suite import load_suite
from counterpose_core.types import EDIT_TYPES
from counterpose_miniature.world.__main__ import DISTRIBUTIONS
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import SPLITS, balanced_scenes
from counterpose_services.captioner.engine import CaptionerEngine
from evaluation.oracle import Oracle
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity import measures
from evaluation.validity.judging import Judgement, Look, judged, seen_in
from evaluation.validity.running import watched
from evaluation.validity.sources import by_image, upload

MEASURES = ("success", "fidelity", "label")


def table(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Figures by edit type, and over all types."""
    by_type: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_type[judgement.edit_type].append(judgement)
    rows = {name: row(by_type[name]) for name in EDIT_TYPES if by_type[name]}
    return rows | {"all": row([one for name in EDIT_TYPES for one in by_type[name]])}


def row(judged: Sequence[Judgement]) -> dict[str, Any]:
    """Figures of one edit type."""
    kept = [one for one in judged if one.kept]
    figures: dict[str, Any] = {"text_success": share([one.text_success for one in judged])}
    for name in MEASURES:
        figures[name] = share([bool(getattr(one, name)) for one in kept])
        figures[f"{name}_unfiltered"] = share([bool(getattr(one, name)) for one in judged])
    return figures


def share(hits: Sequence[bool]) -> dict[str, Any]:
    """A proportion as {estimate, low, high, n}."""
    return measures.share(hits).model_dump()


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default=None, help="address of the gateway")
    parser.add_argument("--preset", default="quick", help="preset of the suite's editor")
    parser.add_argument(
        "--split", default="validation", choices=[split.name for split in SPLITS], help="seeds of the scenes"
    )
    parser.add_argument(
        "--distribution", default="dataset", choices=sorted(DISTRIBUTIONS), help="what the scenes show"
    )
    parser.add_argument("--per-class", type=int, default=12, help="images per class")
    parser.add_argument("--start", type=int, default=0, help="index of the first scene")
    parser.add_argument("--classifier", default="unbiased-resnet", help="classifier under test")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--run", help="judge this run instead of starting one")
    parser.add_argument("--judge", default="oracle", choices=sorted(JUDGES), help="who judges the images")
    parser.add_argument(
        "--rows", type=Path, help="also write each judgement with its scores to this file, as JSON lines"
    )
    parser.add_argument("--out", type=Path, required=True, help="result file")
    return parser.parse_args()


def followed(client: Client, given: argparse.Namespace, scenes: Sequence[Scene]) -> StressTest:
    """Return the run that the arguments ask for, once it has ended."""
    name = f"quality-{given.split}-{given.distribution}-{given.per_class}-{given.start}"
    if name not in {dataset.name for dataset in client.datasets.list().datasets}:
        upload(client, name, scenes)
    if given.run:
        return watched(client.stress_tests.get(given.run))
    return watched(
        client.stress_tests.create(
            dataset=name,
            classifiers=[given.classifier],
            preset=given.preset,
            confirm=False,
            seed=given.seed,
        )
    )


def figures_of(
    given: argparse.Namespace, run: StressTest, items: Sequence[Item], judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """All figures of one run."""
    planned = [item for item in items if item.kind == "edit"]
    kept = {
        name: share([item.state == "done" for item in planned if name in (item.edit_type, "all")])
        for name in (*EDIT_TYPES, "all")
    }
    return {
        "preset": given.preset,
        "split": given.split,
        "seed": given.seed,
        "sources": len({item.item_group for item in items}),
        "yield": kept,
        "edits": table(judgements),
        "counts": run.run.request_counts.model_dump(),
    }


def main() -> None:
    """Run the stress test, judge its images, write the figures."""
    given = parsed()
    split = next(split for split in SPLITS if split.name == given.split)
    scenes = list(balanced_scenes(split, DISTRIBUTIONS[given.distribution], given.per_class, given.start))
    with Client(given.url) as client:
        run = followed(client, given, scenes)
        items = list(run.items())
        made = [item for item in items if item.kind == "edit"]
        seen = seen_in(run.image, made, JUDGES[given.judge])
        judgements = list(judged(made, by_image(scenes), seen).values())
    if given.rows is not None:
        lines = [json.dumps(asdict(one)) + "\n" for one in judgements]
        given.rows.write_text("".join(lines), encoding="utf-8")
    figures = figures_of(given, run, items, judgements)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def by_oracle(images: np.ndarray[Any, Any]) -> Sequence[Mapping[str, str]]:
    """What the oracle sees: it judges every published figure."""
    return Oracle.load().attributes(images)


def by_captioner(images: np.ndarray[Any, Any]) -> Sequence[Mapping[str, str]]:
    """What the served captioner says: it judges during tuning, where the oracle must not be used."""
    suite = load_suite("miniature")
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(folder)
        engine = CaptionerEngine.load(suite.captioner, SUITE_WEIGHTS, store)
        seen: list[Mapping[str, str]] = []
        for start in tqdm(range(0, len(images), 32), desc="caption"):
            refs = [store.put(encode_png(one)) for one in images[start : start + 32]]
            request = CaptionRequest(items=[CaptionItem(image=ref) for ref in refs])
            seen += [parse(outcome.unwrap().text) for outcome in engine.caption(request).outcomes]
    return seen


JUDGES: dict[str, Look] = {"oracle": by_oracle, "captioner": by_captioner}


if __name__ == "__main__":
    main()
