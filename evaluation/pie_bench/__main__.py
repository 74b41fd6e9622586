"""Measures editors on a set of PIE-Bench's format.

    python -m evaluation.pie_bench DATA --preset quick --preset null-text=40 --transform identity \\
        --transform rotation=2 [--suite miniature] [--structure dino-vitb8/] [--perceptual py:my:lpips]

A preset is one of the suite's, of any backend; after `=` stands how many pairs it edits, if not all. The
first pairs have every type in its share. Each row is kept, and a run that was ended goes on; after a change
of what is measured, give another --state.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from counterpose_core.blobs import BlobStore, cache_key, digest
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedTextsRequest
from counterpose_core.errors import CounterposeError, InvalidRequest
from counterpose_core.images.clip_metrics import cosine
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import load_suite
from counterpose_core.transforms.arrays import Pixels
from counterpose_miniature.world.grammar import parse
from counterpose_services.scorer.engine import ScorerEngine
from counterpose_services.settings import ServiceSettings
from evaluation.oracle import Oracle
from evaluation.paths import RESULTS, STATE
from evaluation.pie_bench.contestants import Contestant, contestants_of
from evaluation.pie_bench.data import MAPPING, WORLD, Pair, read_pairs, read_pixels
from evaluation.pie_bench.figures import EditFigures, differences, figures_of
from evaluation.pie_bench.metrics import Distance, distance_of, measured, to_target
from evaluation.pie_bench.structure import structure_distance
from evaluation.validity.judging import verdict


class Measuring:
    """Measures edited images: by the suite's CLIP, the user's distances, the oracle of a rendered set."""

    def __init__(
        self,
        scorer: ScorerEngine,
        store: BlobStore,
        *,
        structure: Distance | None,
        perceptual: Distance | None,
        world: bool,
    ) -> None:
        self._scorer, self._store, self._oracle = scorer, store, Oracle.load() if world else None
        self._structure, self._perceptual = structure, perceptual

    def row(self, contestant: Contestant, pair: Pair) -> dict[str, Any]:
        """Return what is measured of one pair; an edit that was refused has its ``problem`` alone."""
        about: dict[str, Any] = {"id": pair.id, "type": pair.type_id}
        source = read_pixels(pair.image)
        try:
            edited = contestant.edited(pair, source)
        except CounterposeError as error:
            if error.retryable or isinstance(error, InvalidRequest):
                raise
            return about | {"problem": error.code}
        mask = pair.mask(source.shape[:2])
        about |= dict(edited.about) | measured(
            source,
            edited.image,
            mask,
            similarity=lambda image: self._cosine(image, pair.edited_caption),
            structure=self._structure,
            perceptual=self._perceptual,
        )
        about["identical"] = None if about["mse"] is None else about["mse"] == 0
        if pair.target is not None:
            about |= to_target(edited.image, read_pixels(pair.target), mask)
        if self._oracle is not None:
            [seen] = self._oracle.attributes(edited.image[None])
            judged = verdict(pair.caption, pair.edited_caption, parse(pair.caption), seen)
            about |= {"success": judged.success, "fidelity": judged.fidelity}
        return about

    def _cosine(self, image: Pixels, text: str) -> float:
        [seen] = self._scorer.embed_images(
            EmbedImagesRequest(images=[self._store.put(encode_png(image))])
        ).outcomes
        [read] = self._scorer.embed_texts(EmbedTextsRequest(texts=[text])).outcomes
        return float(cosine(seen.unwrap().vector, read.unwrap().vector))


def measured_rows(
    measuring: Measuring,
    contestants: Mapping[Contestant, int],
    pairs: Sequence[Pair],
    state: Path,
    seconds: float | None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each contestant, measured now or by an earlier run; after ``seconds`` no new ones.

    Contestants take turns pair by pair, so that a busy machine slows all of them alike.
    """
    until = None if seconds is None else time.monotonic() + seconds
    rows: dict[str, list[dict[str, Any]]] = {contestant.name: [] for contestant in contestants}
    for place, pair in enumerate(tqdm(pairs, disable=None)):
        for contestant in (each for each, most in contestants.items() if place < most):
            file = state / f"{contestant.name}-{cache_key(key=contestant.key)[:12]}" / f"{pair.id}.json"
            if not file.is_file():
                if until is not None and time.monotonic() > until:
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                part = file.with_suffix(".part")
                part.write_text(json.dumps(measuring.row(contestant, pair)), encoding="utf-8")
                part.replace(file)
            rows[contestant.name].append(json.loads(file.read_bytes()))
    return rows


def _counted(specs: Sequence[str]) -> dict[str, int | None]:
    """Read how many pairs each preset edits, by its name; None for all."""
    split = [spec.partition("=") for spec in specs]
    if wrong := [name for name, equals, number in split if equals and not number.strip("0").isdecimal()]:
        raise InvalidRequest(f"--preset {wrong[0]}=N takes a number of pairs, at least 1")
    return {name: int(number) if number else None for name, _, number in split}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with mapping_file.json and annotation_images")
    parser.add_argument("--suite", default="miniature", help="name or TOML file of the suite")
    parser.add_argument("--preset", action="append", default=[], help="NAME or NAME=PAIRS; repeatable")
    parser.add_argument("--transform", action="append", default=[], help="NAME or NAME=LEVEL; repeatable")
    parser.add_argument("--pairs", type=int, help="pairs of those who name none; default: all")
    parser.add_argument("--seconds", type=float, help="after these no further row is begun")
    parser.add_argument("--structure", type=Path, help="folder of a DINO; without, no structure distance")
    parser.add_argument("--perceptual", help="py:module:function, such as LPIPS; without, none")
    parser.add_argument("--state", type=Path, default=STATE / "pie-bench", help="folder of rows")
    parser.add_argument("--out", type=Path, default=RESULTS / "edits.json", help="result file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the figures."""
    given = parsed(arguments)
    torch.set_num_threads(1)
    suite, pairs = load_suite(given.suite), read_pairs(given.data)
    presets, world = _counted(given.preset), given.data / WORLD
    mapping = digest((given.data / MAPPING).read_bytes())
    own = f"{mapping} {given.structure} {given.perceptual}"
    state = given.state / cache_key(about=own)[:12]
    truth = all(pair.target is not None for pair in pairs)
    settings = ServiceSettings.model_validate({"suite": given.suite, "state_dir": state})
    contestants = contestants_of(suite, list(presets), given.transform, settings, truth=truth)
    if not contestants:
        raise InvalidRequest("name at least one --preset or --transform")
    store = BlobStore(str(state / "stores/measured"))
    measuring = Measuring(
        ScorerEngine.load(suite.scorer, settings.suite_root, store),
        store,
        structure=None if given.structure is None else structure_distance(given.structure),
        perceptual=None if given.perceptual is None else distance_of(given.perceptual),
        world=world.is_file(),
    )
    most = {each: presets.get(each.name) or given.pairs or len(pairs) for each in contestants}
    rows = measured_rows(measuring, most, pairs, state, given.seconds)
    reference = contestants[0].name
    absent = {"structure": "no DINO was given", "lpips": "no perceptual distance was given"}
    present = {"structure": given.structure, "lpips": given.perceptual}
    result = EditFigures(
        data={"mapping": mapping, "pairs": len(pairs)}
        | (json.loads(world.read_bytes()) if world.is_file() else {}),
        suite=suite.name,
        absent={name: reason for name, reason in absent.items() if present[name] is None},
        contestants={name: figures_of(found) for name, found in rows.items() if found},
        reference=reference,
        differences={
            name: differences(found, rows[reference]) for name, found in rows.items() if name != reference
        },
    )
    given.out.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
