"""How good the edits are: every edited picture of a stress test, judged by the oracle.

    python tests/validity/edit_quality.py --preset quick --per-class 12 --out demo/quality-quick.json

Works against a running stack, through the SDK. Success: the oracle sees every attribute that the
edited caption changed, at its new value. Fidelity: it sees all other attributes unchanged, jointly.
Label consistency: it still sees the labelled class. Figures are given for the kept edits and, beside
them, for all edits that were made, with the share kept.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from faultline import Client
from faultline_core.blobs import BlobStore
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.datasets import SourceUpload
from faultline_core.contract.runs import Item
from faultline_core.images import encode_raw
from faultline_core.statistics import proportion
from faultline_core.suite import load_suite
from faultline_core.types import EDIT_TYPES
from faultline_miniature.world.__main__ import DISTRIBUTIONS, balanced_scenes
from faultline_miniature.world.dataset import encode_png
from faultline_miniature.world.grammar import parse
from faultline_miniature.world.renderer import render
from faultline_miniature.world.scene import Scene
from faultline_miniature.world.seeds import SPLITS
from faultline_services.captioner.engine import CaptionerEngine
from oracle import Oracle

Judge = Callable[[np.ndarray[Any, Any]], Sequence[Mapping[str, str]]]
WEIGHTS = Path(__file__).resolve().parents[2] / "services/faultline_miniature/suite/weights"
MEASURES = ("success", "fidelity", "label")


@dataclass(frozen=True)
class Judgement:
    """What the oracle says of one edit."""

    edit_type: str
    kept: bool
    text_success: bool
    success: bool
    fidelity: bool
    label: bool
    scores: dict[str, float | None]


def changed_attributes(caption: str, edited: str) -> dict[str, str]:
    """Attributes whose value differs between two captions, with the new values."""
    before, after = parse(caption), parse(edited)
    return {name: value for name, value in after.items() if before.get(name) != value}


def judge(item: Item, scene: Scene, seen: Mapping[str, str]) -> Judgement:
    """Hold what the oracle saw in the edit against what the edit was to change."""
    assert item.result is not None
    changes = changed_attributes(item.result.caption, item.result.edited_caption or item.result.caption)
    others = {name: value for name, value in scene.attributes().items() if name not in changes}
    return Judgement(
        edit_type=item.edit_type or item.kind,
        kept=item.state == "done",
        text_success=len(changes) == 1,
        success=bool(changes) and all(seen.get(name) == value for name, value in changes.items()),
        fidelity=all(seen.get(name) == value for name, value in others.items()),
        label=seen.get("object_class") == scene.object_class,
        scores={} if item.result.scores is None else item.result.scores.model_dump(),
    )


def upload(client: Client, name: str, scenes: Sequence[Scene]) -> dict[str, Scene]:
    """Make the dataset of ``scenes``; returns the scene of each source by its id."""
    client.datasets.create(name=name)
    by_file: dict[str, Scene] = {}
    for start in range(0, len(scenes), 32):
        batch = scenes[start : start + 32]
        uploads = [upload_of(f"{start + k:05}.png", scene) for k, scene in enumerate(batch)]
        by_file |= {sent.filename: scene for sent, scene in zip(uploads, batch, strict=True)}
        client.datasets.add(name, uploads)
    return by_file


def upload_of(filename: str, scene: Scene) -> SourceUpload:
    """One rendered scene as an upload."""
    content = base64.b64encode(encode_png(render(scene))).decode()
    return SourceUpload(filename=filename, label=scene.object_class, content_base64=content)


def picture(client_bytes: bytes) -> np.ndarray[Any, Any]:
    """PNG bytes as uint8 (H, W, 3)."""
    return np.asarray(Image.open(io.BytesIO(client_bytes)).convert("RGB"))


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
    return proportion(sum(hits), len(hits)).model_dump()


def main() -> None:
    """Run the stress test, judge its pictures, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default=None)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--split", default="validation", choices=[split.name for split in SPLITS])
    parser.add_argument("--distribution", default="dataset", choices=sorted(DISTRIBUTIONS))
    parser.add_argument("--per-class", type=int, default=12)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--classifier", default="unbiased-resnet")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", help="judge this run instead of starting one")
    parser.add_argument("--judge", default="oracle", choices=sorted(JUDGES))
    parser.add_argument("--rows", type=Path, help="write each judgement with its scores there, as JSON lines")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    split = next(split for split in SPLITS if split.name == arguments.split)
    distribution = DISTRIBUTIONS[arguments.distribution]
    scenes = list(balanced_scenes(split, distribution, arguments.per_class, arguments.start))
    name = f"quality-{arguments.split}-{arguments.distribution}-{arguments.per_class}-{arguments.start}"
    with Client(arguments.url) as client:
        known = {dataset.name for dataset in client.datasets.list().datasets}
        if name not in known:
            upload(client, name, scenes)
        run = (
            client.stress_tests.get(arguments.run)
            if arguments.run
            else client.stress_tests.create(
                dataset=name,
                classifiers=[arguments.classifier],
                preset=arguments.preset,
                seed=arguments.seed,
            )
        )
        for event in run.events():
            sys.stderr.write(f"\r{event.request_counts}")
        items = list(run.items())
        by_image = {digest_of(scene): scene for scene in scenes}
        judgements = judged(run.picture, items, by_image, JUDGES[arguments.judge])
        counts = run.run.request_counts
    if arguments.rows is not None:
        arguments.rows.write_text(
            "".join(json.dumps(asdict(one)) + "\n" for one in judgements), encoding="utf-8"
        )
    planned = [item for item in items if item.kind == "edit"]
    figures = {
        "preset": arguments.preset,
        "split": arguments.split,
        "seed": arguments.seed,
        "sources": len(scenes),
        "yield": {
            name: share([item.state == "done" for item in planned if item.edit_type == name])
            for name in EDIT_TYPES
        }
        | {"all": share([item.state == "done" for item in planned])},
        "edits": table(judgements),
        "counts": counts.model_dump(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def digest_of(scene: Scene) -> str:
    """The name that the store gives the scene's uploaded picture."""
    return hashlib.sha256(encode_raw(render(scene))).hexdigest()


def judged(
    fetch: Callable[[str], bytes], items: Sequence[Item], scenes: Mapping[str, Scene], look: Judge
) -> list[Judgement]:
    """Judge every edit that left a picture, kept or filtered."""
    made = [item for item in items if item.kind == "edit" and item.result is not None]
    pictures = [picture(fetch(item.result.image)) for item in tqdm(made, desc="fetch") if item.result]
    seen = look(np.stack(pictures)) if pictures else []
    return [judge(item, scenes[item.source_image], one) for item, one in zip(made, seen, strict=True)]


def by_oracle(pictures: np.ndarray[Any, Any]) -> Sequence[Mapping[str, str]]:
    """What the oracle sees: the judge of every published figure."""
    return Oracle.load().attributes(pictures)


def by_captioner(pictures: np.ndarray[Any, Any]) -> Sequence[Mapping[str, str]]:
    """What the served captioner tells: the judge for tuning, where the oracle must stay out."""
    suite = load_suite("miniature")
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(folder)
        engine = CaptionerEngine.load(suite.captioner, WEIGHTS, store)
        seen: list[Mapping[str, str]] = []
        for start in tqdm(range(0, len(pictures), 32), desc="caption"):
            refs = [store.put(encode_png(one)) for one in pictures[start : start + 32]]
            request = CaptionRequest(items=[CaptionItem(image=ref) for ref in refs])
            seen += [parse(outcome.unwrap().text) for outcome in engine.caption(request).outcomes]
    return seen


JUDGES: dict[str, Judge] = {"oracle": by_oracle, "captioner": by_captioner}


if __name__ == "__main__":
    main()
