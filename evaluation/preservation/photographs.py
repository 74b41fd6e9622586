"""Holds preservation on photographic cut-outs, whose alpha channel is the object's exact mask.

    python -m evaluation.preservation.photographs FOLDER [--out FILE]

FOLDER holds cut-outs as PNG with an alpha channel, such as those of the Debian package
tuxpaint-stamps-default; none is in this repository. Each is put before one photographed ground as the source,
and before another as the edit: as it was, moved by 3 % of the side, or with its hues turned; or the ground
stays. Only the background was to change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from counterpose_core.contract.preservation import Fault
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import PreservationScores, measure
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_photographs.scenes import backgrounds
from evaluation.paths import RESULTS
from evaluation.preservation.planting import Server, difference, hue_matrix, stored

SIDE, OBJECT = 384, 0.76
"""Pixels of the square image, and the longest side of the object in it."""
MOVED, TURNED = 0.03, 60.0
SEEN = 6.0
"""Mean ΔE*ab of an object from which on its turned hues are a fault: some are grey."""
SERVERS: Mapping[str, Server] = {
    "PNG": lambda image, generator: image,
    "JPEG 80": partial(stored, form="JPEG", quality=80),
}
FAULTS: Mapping[str, frozenset[Fault]] = {
    "object moved": frozenset({"moved"}),
    "object recoloured": frozenset({"drifted", "leaked"}),
    "nothing changed": frozenset({"ignored"}),
}
"""What a fault is to be called; all but it are as asked."""


def cutouts(folder: Path) -> Iterator[tuple[str, Image.Image]]:
    """Yield name and RGBA of each cut-out of a folder, `OBJECT` of the side long, by their names."""
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as image:
            if image.has_transparency_data:
                longest = round(SIDE * OBJECT)
                size = ImageOps.contain(image.convert("RGBA"), (longest, longest), Image.Resampling.LANCZOS)
                yield path.relative_to(folder).as_posix(), size


def composited(cutout: Image.Image, ground: Image.Image, shift: float = 0.0, hue: float = 0.0) -> Pixels:
    """Return a cut-out in the middle of a ground, moved right by a share of the side, its hues turned."""
    canvas = ground.copy()
    canvas.paste(_turned(cutout, hue), _corner(cutout, shift), cutout)
    return np.asarray(canvas)


def object_mask(cutout: Image.Image) -> Mask:
    """Return where (SIDE, SIDE) the cut-out in the middle is at least half opaque."""
    canvas = Image.new("L", (SIDE, SIDE))
    canvas.paste(cutout.getchannel("A"), _corner(cutout, 0.0))
    return np.asarray(canvas) >= 128


def _corner(cutout: Image.Image, shift: float) -> tuple[int, int]:
    return (SIDE - cutout.width) // 2 + round(shift * SIDE), (SIDE - cutout.height) // 2


def _turned(cutout: Image.Image, hue: float) -> Image.Image:
    if not hue:
        return cutout
    levels = np.asarray(cutout.convert("RGB")) @ hue_matrix(hue).T
    changed = Image.fromarray(np.rint(np.clip(levels, 0, 255)).astype(np.uint8))
    changed.putalpha(cutout.getchannel("A"))
    return changed


def answers(cutout: Image.Image, old: Image.Image, new: Image.Image) -> dict[str, Pixels]:
    """Return what a server might answer that was asked for another background."""
    mask = object_mask(cutout)
    right, turned = composited(cutout, new), composited(cutout, new, hue=TURNED)
    pairs = {
        "as asked": right,
        "object moved": composited(cutout, new, MOVED),
        "nothing changed": composited(cutout, old),
    }
    return pairs | ({"object recoloured": turned} if difference(right, turned, mask) >= SEEN else {})


def measured(
    folder: Path, photographs: Sequence[Image.Image], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Return the scores of every answer for every cut-out of a folder, servers and grounds by turns."""
    grounds = [ImageOps.fit(ground, (SIDE, SIDE), Image.Resampling.LANCZOS) for ground in photographs]
    results: list[dict[str, Any]] = []
    for index, (name, cutout) in enumerate(tqdm(list(cutouts(folder)), disable=None)):
        old, new = (grounds[(index + step) % len(grounds)] for step in (0, 1))
        source, region = composited(cutout, old), ~object_mask(cutout)
        server = list(SERVERS)[index % len(SERVERS)]
        for answer, image in answers(cutout, old, new).items():
            scores = measure(source, SERVERS[server](image, generator), region=region)
            results.append({"cutout": name, "server": server, "answer": answer, "scores": scores})
        control = measure(source, SERVERS[server](source, generator), region=np.zeros_like(region))
        results.append({"cutout": name, "server": server, "answer": "control", "scores": control})
    return results


def figures(rows: Sequence[Mapping[str, Any]], limits: Limits) -> dict[str, Any]:
    """Return how often each answer is refused, and named rightly, with the scores that were missing."""
    controls: dict[str, list[PreservationScores]] = {name: [] for name in SERVERS}
    for row in rows:
        if row["answer"] == "control":
            controls[row["server"]].append(row["scores"])
    raised = {name: limits.raised(scores) or limits for name, scores in controls.items()}
    rates: dict[str, Any] = {}
    for answer in ("as asked", *FAULTS):
        faults = [raised[row["server"]].faults(row["scores"]) for row in rows if row["answer"] == answer]
        rates[answer] = {"refused": proportion(sum(map(bool, faults)), len(faults)).model_dump()}
        if answer in FAULTS:
            named = sum(not FAULTS[answer].isdisjoint(names) for names in faults)
            rates[answer]["named"] = proportion(named, len(faults)).model_dump()
    missing: dict[str, int] = {}
    for row in rows:
        for score, reason in row["scores"].missing.items():
            missing[f"{score}: {reason}"] = missing.get(f"{score}: {reason}", 0) + 1
    factors = {name: own_limits.leak_colour / limits.leak_colour for name, own_limits in raised.items()}
    return {
        "cutouts": len({row["cutout"] for row in rows}),
        "answers": rates,
        "missing": missing,
        "raised by controls": factors,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the cut-outs of a folder and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="cut-outs: PNG files with an alpha channel, in any subfolder"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "preservation-photographs.json")
    given = parser.parse_args(arguments)
    if not any(True for _ in cutouts(given.folder)):
        raise SystemExit(
            f"{given.folder} holds no PNG with an alpha channel; give a folder of cut-outs, such as the "
            "stamps of the Debian package tuxpaint-stamps-default"
        )
    rows = measured(given.folder, backgrounds(), np.random.default_rng(0))
    given.out.write_text(json.dumps(figures(rows, Limits()), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{given.out}\n")


if __name__ == "__main__":
    main()
