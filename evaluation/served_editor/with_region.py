"""The second part of ``make validate-served``: the same server, sources with masks, and runs with a region.

    python -m evaluation.served_editor.with_region [--sources 96] [--regions object,background] [--out FILE]

One run edits the object, one what lies around it. Each refuses every fault. The server takes the masks and
does not keep to them: what it plants lies outside the region. Where the true counterfactual itself changes
what the region keeps, an answer is neither right nor wrong: the edit is left out, and counted by its reason.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preservation import FAULTS
from counterpose_core.contract.regions import RegionOfEdits
from counterpose_core.images.codecs import decode_image
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import measure
from counterpose_miniature.training.stage import use_threads, write_atomically
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from evaluation.paths import STATE
from evaluation.served_editor import running
from evaluation.served_editor.__main__ import EDITS_OF_A_SOURCE, OUT, REGIONED, STRETCH, scenes
from evaluation.served_editor.figures import (
    EDIT,
    Judged,
    Pair,
    found_figures,
    gate_figures,
    limits_figures,
    outcome_figures,
    pairs_of,
)
from evaluation.served_editor.oracle import Question
from evaluation.served_editor.plan import PLANS, WITH_REGION, Plan
from evaluation.served_editor.regions import REGIONS, Region, left_out, region_aims
from evaluation.served_editor.running import Arm, Done, Request, finished
from evaluation.validity.sources import by_image

CLASSIFIER = "leaning-resnet"
"""One is enough: no bug is looked for."""


def region_arms() -> dict[RegionOfEdits, Arm]:
    """Return a run of each region, on the faulty server's shares by a seed of its own."""
    return {
        name: Arm(
            Plan(f"region-{name}", PLANS["faulty"].shares, region.seed),
            running.PORT + len(PLANS) + number,
            {"region": name, "edit_types": list(region.edit_types), "refused_faults": list(FAULTS)},
        )
        for number, (name, region) in enumerate(REGIONS.items())
    }


def figures_of(region: Region, done: Done, known: Mapping[str, Scene], store: BlobStore) -> dict[str, Any]:
    """Every figure of a run with a region."""
    edits = [pair for pair in pairs_of(done.items, done.answers) if pair.item.kind == EDIT]
    reasons = [region.beyond(_question(pair, known)) for pair in edits]
    judged = [pair for pair, reason in zip(edits, reasons, strict=True) if reason is None]
    gate = gate_figures(judged)
    # By the region, all can be told.
    del gate["kept without a fault, of faults that can be told"]
    return {
        "seed of the plan": region.seed,
        "sources": len(known),
        "edit types": list(region.edit_types),
        "outcomes": outcome_figures(done.items, done.answers),
        "left out": left_out(list(zip(edits, reasons, strict=True))),
        "gate": gate,
        "planted in edits": found_figures(judged),
        "by the limits alone": limits_figures(list(_told(region, judged, known, store))),
    }


def _question(pair: Pair, known: Mapping[str, Scene]) -> Question:
    return Question(known[pair.answer.image], pair.answer.changes)


def _told(
    region: Region, pairs: Sequence[Pair], known: Mapping[str, Scene], store: BlobStore
) -> Iterator[Judged]:
    """Yield what the limits say of planted faults by the run's masks, whatever CLIP says."""
    for pair in pairs:
        if pair.answer.group in REGIONED and pair.answer.seen and pair.item.result is not None:
            scene = known[pair.answer.image]
            edited = decode_image(store.get(pair.item.result.image))
            names = Limits().faults(measure(render(scene), edited, region=region.allowed(scene)))
            yield pair.answer.group, pair.answer.fault, list(names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, measure and write the figures beside those without a region."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", type=int, default=96, help="images, spread evenly over the classes")
    parser.add_argument("--regions", default=",".join(REGIONS), help="the figures of others stay")
    parser.add_argument("--state", type=Path, default=STATE / "served-editor", help="folder of what is done")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    use_threads(1)
    chosen, state = scenes(given.sources), given.state.absolute() / f"regions-{given.sources}"
    known, store = by_image(chosen), BlobStore(str(state / "store"))
    asked = Request(chosen, [CLASSIFIER], EDITS_OF_A_SOURCE, STRETCH)
    beside = json.loads(given.out.read_bytes()) if given.out.exists() else {}
    runs = beside.get(WITH_REGION, {}).get("runs", {})
    for name, arm in region_arms().items():
        if name in given.regions.split(","):
            runs[name] = figures_of(REGIONS[name], finished(arm, asked, state), known, store)
    setting = {"planned edits of a source": EDITS_OF_A_SOURCE, "classifier": CLASSIFIER}
    made = beside | {WITH_REGION: {"aims": region_aims(runs), "setting": setting, "runs": runs}}
    write_atomically(given.out, f"{json.dumps(made, indent=1, ensure_ascii=False)}\n".encode())


if __name__ == "__main__":
    main()
