"""What a region keeps: the same edits with one and without, judged by exact masks and the oracle.

    python -m evaluation.edit_quality.regions --preset quick=30 --attribute background --rows ROWS --out FILE

Development scenes are edited as the grammar says: the background or the companion outside the object, its
colour or kind inside. PSNR is of what was to stay, against the source, and against the source with nothing
changed by the editor's own path, as are SSIM and the wrong region, in which an edit is if
`counterpose_core.preservation` calls it drifted or leaked. The suite's gate says whether it is kept. Both of
a pair start from one inversion. The preset `lance-region` was chosen on other scenes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, ReconstructItem, ReconstructRequest
from counterpose_core.contract.preservation import OF_REGIONS
from counterpose_core.contract.regions import EditRegion
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import measure
from counterpose_core.stress_test.filters import choose
from counterpose_core.suite import Suite, load_suite
from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_core.types import Side
from counterpose_miniature.world.grammar import Edit
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.latent_codec import psnr_db
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.edit_quality.scoring import scored
from evaluation.edit_quality.trials import Trial, trial
from evaluation.oracle import Oracle
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity.judging import verdict
from evaluation.validity.measures import resampled, share

SIDES: Mapping[str, Side] = {
    "background": "outside",
    "companion": "outside",
    "colour": "inside",
    "kind": "inside",
}
"""Changed attribute → the side of the object's mask on which it is."""
FIRST_SCENE = 3_700_000
MEANS = ("psnr_outside_db", "psnr_outside_unchanged_db", "ssim_outside")
SHARES = ("kept", "wrong_region", "success", "fidelity", "label")


class Models:
    """The suite's editor and scorer over one store, and the oracle."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite, self.store = suite, BlobStore(str(folder))
        self.editor = EditorEngine.load(suite.editor, SUITE_WEIGHTS, self.store)
        self.scorer = ScorerEngine.load(suite.scorer, SUITE_WEIGHTS, self.store)
        self.oracle = Oracle.load()

    def rows(self, name: str, one: Trial) -> Iterator[dict[str, Any]]:
        """Edit a scene by a preset, each edit that has a side once with its region and once without."""
        source = render(one.scene)
        inside = object_mask(one.scene) >= 0.5
        image = self.store.put(encode_png(source))
        mask = self.store.put(encode_png(np.repeat(inside[..., None], 3, axis=2).astype(np.uint8) * 255))
        for edit in (each for each in one.edits if each.attribute in SIDES):
            side = SIDES[edit.attribute]
            region = inside if side == "inside" else ~inside
            for bounded in (False, True):
                item = EditItem(
                    image=image,
                    caption=edit.caption,
                    edited_caption=edit.edited_caption,
                    region=EditRegion(mask=mask, edits=side) if bounded else None,
                )
                found = self._judged(name, one, edit, item, source, region)
                yield {
                    "preset": name,
                    "trial": one.index,
                    "attribute": edit.attribute,
                    "bounded": bounded,
                    **found,
                }

    def _judged(
        self, name: str, one: Trial, edit: Edit, item: EditItem, source: Pixels, region: Mask
    ) -> dict[str, Any]:
        preset = self.suite.editor.presets[name]
        [outcome] = self.editor.edit(EditRequest(items=[item], preset=preset)).outcomes
        variants = outcome.unwrap().variants
        scores = scored(self.scorer, item, [each.image for each in variants])
        strengths = [each.strength for each in variants]
        choice = choose(list(zip(strengths, scores, strict=True)), self.suite.scorer.gate, "paper")
        made = decode_image(self.store.get(variants[choice.index].image))
        asked = ReconstructItem(image=item.image, caption=edit.caption)
        again = self.editor.reconstruct(ReconstructRequest(items=[asked], preset=preset)).outcomes[0].unwrap()
        unchanged = decode_image(self.store.get(again.image))
        seen = self.oracle.attributes(made[None])[0]
        told = measure(unchanged, made, region=region)
        return {
            "kept": choice.failed is None,
            "failed": choice.failed,
            "psnr_outside_db": psnr_db(source[~region], made[~region]),
            "psnr_outside_unchanged_db": psnr_db(unchanged[~region], made[~region]),
            "ssim_outside": None if told.outside is None else 1.0 - told.outside.structure,
            "wrong_region": bool({*Limits().faults(told)} & {*OF_REGIONS}),
            **verdict(edit.caption, edit.edited_caption, one.scene.attributes(), seen)._asdict(),
        }


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and shares with intervals over scenes, and how often which score refused."""
    scenes, generator = [str(row["trial"]) for row in rows], np.random.default_rng(0)

    def estimate(name: str) -> dict[str, Any]:
        values = np.array([np.nan if row[name] is None else float(row[name]) for row in rows])

        def mean(chosen: Any) -> float | None:
            known = values[chosen][~np.isnan(values[chosen])]
            return float(known.mean()) if known.size else None

        by_scene = dict(zip(scenes, values, strict=True))
        # Where all agree, every resample does: the interval is that of a proportion of scenes.
        if name in SHARES and (len(by_scene) == len(rows) or len(set(values)) == 1):
            return share([bool(value) for value in by_scene.values()]).model_dump()
        return resampled(mean, scenes, generator).model_dump()

    failed = [row["failed"] for row in rows if row["failed"]]
    return {
        "edits": len(rows),
        "scenes": len(set(scenes)),
        **{name: estimate(name) for name in (*MEANS, *SHARES)},
        "refused_by": {name: failed.count(name) for name in sorted(set(failed))},
    }


def main() -> None:
    """Edit, judge and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", action="append", required=True, help="NAME=SCENES", dest="presets")
    parser.add_argument("--first", type=int, default=FIRST_SCENE, help="index of the first development scene")
    parser.add_argument("--attribute", action="append", choices=sorted(SIDES), help="default: all")
    parser.add_argument("--rows", type=Path, required=True, help="keeps finished scenes, as JSON lines")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = given.rows.read_text(encoding="utf-8").splitlines() if given.rows.exists() else []
    known = [json.loads(line) for line in lines]
    wanted = given.attribute or list(SIDES)
    grouped = defaultdict[tuple[str, str, bool], list[dict[str, Any]]](list)
    with tempfile.TemporaryDirectory() as folder:
        models = Models(load_suite("miniature"), Path(folder))
        for name, _, count in (text.partition("=") for text in given.presets):
            for index in tqdm(range(int(count)), desc=name, disable=None):
                one = trial(index, given.first)
                edits = tuple(each for each in one.edits if each.attribute in wanted)
                found = [row for row in known if (row["preset"], row["trial"]) == (name, index)]
                if not found:
                    found = list(models.rows(name, Trial(one.index, one.scene, edits)))
                    with given.rows.open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(row) + "\n" for row in found)
                for row in found:
                    grouped[name, SIDES[row["attribute"]], row["bounded"]].append(row)
    told = defaultdict[str, dict[str, Any]](dict)
    for (name, side, bounded), rows in grouped.items():
        told[name][f"{side}, {'region' if bounded else 'everywhere'}"] = figures(rows)
    text = json.dumps({"first_scene": given.first, **told}, indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
