"""Records with images in a store, and the contents of their exports."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.types import Estimate
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.export import ExportLayout, write_export
from counterpose_gateway.exports.records import Answer, Record, Source
from fakes.store import FakeStore, image

CLASSES = ("plate", "Great Dane", "train")
SHIFTS = ("in the snow", "base")
SOURCES = ("token", "class-name")
CARD = Card(
    title="Plates in the snow",
    what="Shows where a classifier stops seeing plates.",
    made="Textual inversion, 50 steps of DDIM.",
    filters={"object": Estimate(estimate=0.75, low=0.6, high=0.9, n=40)},
    figures={"drop in the snow": Estimate(estimate=0.125, low=0.05, high=0.2, n=32)},
)

Store = BlobStore | FakeStore


def record(store: Store, **told: Any) -> Record:
    """A record of which only what is ``told`` matters; its image is in ``store``."""
    fields: dict[str, Any] = {
        "class_name": "plate",
        "shift": "in the snow",
        "image_source": "token",
        "prompt": "a photo of a plate in the snow",
        "seed": 7,
        "model": "sd-2@" + "b" * 12,
        "bundle": "c" * 64,
        "scores": {"object": 0.5, "shift": 0.25},
        "run": "run-1",
    } | told
    fields.setdefault(
        "image", store.put(image(*(fields[name] for name in ("class_name", "shift", "image_source", "seed"))))
    )
    return Record(**fields)


def records(store: Store) -> list[Record]:
    """Every class under every shift from both image sources, two seeds each, of which one was dropped."""
    return [_one_of(store, *one) for one in itertools.product(SHIFTS, SOURCES, CLASSES, (0, 1))]


def _one_of(store: Store, shift: str, image_source: str, class_name: str, seed: int) -> Record:
    learned = image_source == "token"
    return record(
        store,
        class_name=class_name,
        shift=shift,
        image_source=image_source,
        seed=seed,
        prompt=f"a photo of a {class_name} {shift} ❄",
        bundle="c" * 64 if learned else None,
        # A score that only some have, as of another filter.
        scores={"object": 0.5 + seed / 8, "shift": 0.25} | ({"token": 0.125} if learned else {}),
        verdict="kept" if seed else "shift",
    )


def pairs(store: Store) -> list[Record]:
    """Two counterfactuals of one source image, whose class a spreadsheet would take for a formula."""
    source = Source(
        image=store.put(image("source")),
        caption="a plate on grass",
        changed="background",
        removed="grass",
        added="snow",
        answers={"timm:resnet50": Answer(label="=plate", probability=0.9)},
    )
    after = [Answer(label="<b>cup</b>", probability=0.6), Answer(label="=plate", probability=0.7)]
    return [
        record(
            store,
            class_name="=plate",
            shift="background",
            image_source="edit",
            origin="edited",
            seed=seed,
            verdict="kept" if seed == 0 else "direction",
            scores={"direction": 0.25, "truth timm:resnet50": 0.4},
            answers={"timm:resnet50": answer},
            source=source,
        )
        for seed, answer in enumerate(after)
    ]


def rows_of(made: list[Record]) -> list[dict[str, Any]]:
    """What an export must tell of each record, written down without the product's own columns."""
    names = sorted({name for one in made for name in one.scores})
    generated = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
    return [
        {
            "class_name": one.class_name,
            "shift": one.shift,
            "image_source": one.image_source,
            "prompt": one.prompt,
            "seed": one.seed,
            "model": one.model,
            "bundle": one.bundle or "",
            "verdict": one.verdict,
            "kept": one.verdict == "kept",
            "run": one.run,
            "artifact": one.image,
            "origin": "generated",
            "synthetic": True,
            "digital_source_type": generated,
            "scores": {name: one.scores.get(name) for name in names},
        }
        for one in made
    ]


def scored(store: Store, made: list[Record]) -> list[Pixels]:
    """The pixels that were scored, in the order of the records."""
    return [decode_image(store.get(one.image)) for one in made]


def exported(folder: Path, layout: ExportLayout) -> Iterator[bytes]:
    """Every PNG of an export in its order, without source images."""
    yield from _READ[layout](folder)


def _of_imagefolder(folder: Path) -> Iterator[bytes]:
    for line in (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines():
        yield (folder / json.loads(line)["file_name"]).read_bytes()


def _of_parquet(folder: Path) -> Iterator[bytes]:
    for path in sorted((folder / "data").iterdir()):
        yield from (one["bytes"] for one in pyarrow.parquet.read_table(path)["image"].to_pylist())


def _of_webdataset(folder: Path) -> Iterator[bytes]:
    for path in sorted((folder / "data").iterdir()):
        with tarfile.open(path) as tar:
            yield from (tar.extractfile(one).read() for one in tar if one.name.endswith(".png"))  # type: ignore[union-attr]  # every member is a file


def _of_fiftyone(folder: Path) -> Iterator[bytes]:
    for sample in json.loads((folder / "samples.json").read_bytes())["samples"]:
        if sample.get("group", {}).get("name") != "source":
            yield (folder / sample["filepath"]).read_bytes()


def _of_label_studio(folder: Path) -> Iterator[bytes]:
    for task in json.loads((folder / "tasks.json").read_bytes()):
        yield file_of_task(folder, task["data"]["image"]).read_bytes()


_READ: dict[ExportLayout, Callable[[Path], Iterator[bytes]]] = {
    "imagefolder": _of_imagefolder,
    "parquet": _of_parquet,
    "webdataset": _of_webdataset,
    "fiftyone": _of_fiftyone,
    "label-studio": _of_label_studio,
}


def file_of_task(folder: Path, url: str) -> Path:
    """The file of an image that a task names, where the folder is named as the run."""
    run, _, path = unquote(url.removeprefix("/data/local-files/?d=")).partition("/")
    assert run.startswith("run-") or len(run) == 32
    return folder / path


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder, by its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def export_and_die(root: str, target: str, layout: ExportLayout, after: int) -> None:
    """Export what the store in ``root`` is filled with, and be killed once ``after`` images are written."""

    def die(written: int, _: int) -> None:
        if written == after:
            os.kill(os.getpid(), signal.SIGKILL)

    store = BlobStore(root)
    write_export(
        records(store), Path(target), layout=layout, store=store, card=CARD, shard_bytes=2000, progress=die
    )
