"""The second part of ``make validate-served``: the same server, sources with masks, and runs with a region.

    python -m evaluation.served_editor.regions [--sources 96] [--state FOLDER] [--out FILE]

One run edits the object, one what lies around it. Each refuses every fault. The server takes the masks and
does not keep to them: what it plants lies outside the region. Where the true counterfactual itself changes
what the region keeps, an answer is neither right nor wrong: the edit is left out, and counted by its reason.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preservation import FAULTS
from counterpose_core.contract.regions import RegionOfEdits
from counterpose_core.images.codecs import decode_image
from counterpose_core.images.masks import editable
from counterpose_core.preservation.arrays import grown
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import measure
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import EditType, Estimate, Side
from counterpose_miniature.training.stage import use_threads, write_atomically
from counterpose_miniature.world.renderer import IMAGE_SIDE, object_mask, render
from counterpose_miniature.world.scene import Scene
from evaluation.paths import STATE
from evaluation.preservation.planting import VISIBLE, difference
from evaluation.preservation.trials import TOUCHED
from evaluation.served_editor import running
from evaluation.served_editor.__main__ import EDITS_OF_A_SOURCE, OUT, STRETCH, WITH_REGION, scenes
from evaluation.served_editor.figures import (
    AIM,
    EDIT,
    LEVEL,
    Judged,
    Pair,
    found_figures,
    gate_figures,
    limits_figures,
    outcome_figures,
    pairs_of,
    rate,
)
from evaluation.served_editor.oracle import Question, mask_file
from evaluation.served_editor.plan import PLANS, SEED, Plan
from evaluation.served_editor.running import Arm, Done, Request, finished
from evaluation.validity.aims import at_least, at_most
from evaluation.validity.sources import by_image

CLASSIFIER = "leaning-resnet"
"""One is enough: no bug is looked for."""
OF_REGIONS = ("shift", "leak", "recolour", "over-edit")
"""The planted groups that have an aim."""


@dataclass(frozen=True)
class Region:
    """The edits of a run: on which side of the mask, of which types and attributes; ``seed`` of its plan."""

    side: Side
    edit_types: tuple[EditType, ...]
    attributes: tuple[str, ...]
    seed: int

    def allowed(self, scene: Scene) -> Mask:
        """Return where (H, W) a scene's image may change."""
        return editable(mask_file(scene), self.side, (IMAGE_SIDE, IMAGE_SIDE))

    def beyond(self, question: Question) -> str | None:
        """Return why the true counterfactual changes more than the region and a pixel's edge; None if not."""
        source, edited = render(question.before), render(question.after)
        stays = ~grown(self.allowed(question.before), 1)
        away = np.abs(source.astype(int) - edited).max(axis=-1) > TOUCHED
        if difference(source, edited, stays & away) < VISIBLE:
            return None
        others = [name for name in question.changes if name not in self.attributes]
        if others:
            return f"{others[0]} changes what lies elsewhere"
        if self.side == "inside" and (stays & (object_mask(question.after) > 0)).any():
            return "the object has another silhouette"
        if question.before.style != "photo":
            return f"the {question.before.style} spreads the change"
        return "a part of the object is thinner than a pixel"


REGIONS: Mapping[RegionOfEdits, Region] = {
    "object": Region("inside", ("subject", "adjective"), ("kind", "colour"), SEED + 1),
    "background": Region("outside", ("object", "background"), ("companion", "background"), SEED + 2),
}


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
    return {
        "seed of the plan": region.seed,
        "edit types": list(region.edit_types),
        "outcomes": outcome_figures(done.items, done.answers),
        "left out": left_out(list(zip(edits, reasons, strict=True))),
        "gate": gate_figures(judged),
        "planted in edits": found_figures(judged),
        "by the limits alone": limits_figures(list(_told(region, judged, known, store))),
    }


def left_out(edits: Sequence[tuple[Pair, str | None]]) -> dict[str, Any]:
    """How many edits are left out, why, and what the gate does with those that the server obeyed."""
    out = [(pair, reason) for pair, reason in edits if reason is not None]
    asked = sorted({name for pair, _ in edits for name in pair.answer.changes})
    obeyed = [pair for pair, _ in out if pair.answer.group == "obeys" and pair.faults is not None]
    return {
        "edits": rate(reason is not None for _, reason in edits),
        "by reason": dict(Counter(reason for _, reason in out).most_common()),
        "by what was asked": {
            name: rate(reason is not None for pair, reason in edits if name in pair.answer.changes)
            for name in asked
        },
        "refused, of those as asked for": rate(pair.is_refused for pair in obeyed),
    }


def _question(pair: Pair, known: Mapping[str, Scene]) -> Question:
    return Question(known[pair.answer.image], pair.answer.changes)


def _told(
    region: Region, pairs: Sequence[Pair], known: Mapping[str, Scene], store: BlobStore
) -> Iterator[Judged]:
    """Yield what the limits say of edits whose change is seen, by the run's masks, whatever CLIP says."""
    for pair in pairs:
        names, result = pair.faults, pair.item.result
        if names is None and pair.answer.seen and result is not None:
            scene = known[pair.answer.image]
            edited = decode_image(store.get(result.image))
            names = list(Limits().faults(measure(render(scene), edited, region=region.allowed(scene))))
        if pair.answer.seen:
            yield pair.answer.group, pair.answer.fault, names


def region_aims(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the targets of the runs with a region, and whether each was reached."""
    wanted = []
    for name, each in figures.items():
        gate, planted = each["gate"], each["planted in edits"]
        kept, false = (Estimate(**gate[figure]) for figure in ("kept without a fault", "false refusals"))
        wanted.append(at_least(f"region `{name}`: edits kept without a fault", kept, AIM))
        wanted.append(at_most(f"region `{name}`: right edits refused", false, LEVEL))
        for group in OF_REGIONS:
            refused = Estimate(**planted[group]["refused for preservation"])
            wanted.append(at_least(f"region `{name}`: {group}, refused", refused, AIM))
    return [aim.model_dump() for aim in wanted]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, measure and write the figures beside those without a region."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", type=int, default=96, help="images, spread evenly over the classes")
    parser.add_argument("--state", type=Path, default=STATE / "served-editor", help="folder of what is done")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    use_threads(1)
    chosen, state = scenes(given.sources), given.state.absolute() / f"regions-{given.sources}"
    known, store = by_image(chosen), BlobStore(str(state / "store"))
    asked = Request(chosen, [CLASSIFIER], EDITS_OF_A_SOURCE, STRETCH)
    runs = {
        name: figures_of(REGIONS[name], finished(arm, asked, state), known, store)
        for name, arm in region_arms().items()
    }
    setting = {
        "sources": given.sources,
        "planned edits of a source": EDITS_OF_A_SOURCE,
        "classifier": CLASSIFIER,
    }
    beside = json.loads(given.out.read_bytes()) if given.out.exists() else {}
    made = beside | {WITH_REGION: {"aims": region_aims(runs), "setting": setting, "runs": runs}}
    write_atomically(given.out, f"{json.dumps(made, indent=1, ensure_ascii=False)}\n".encode())


if __name__ == "__main__":
    main()
