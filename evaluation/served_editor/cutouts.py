"""A stress test on photographic cut-outs without CLIP: captions, exact masks, and a server that may lie.

    python -m evaluation.served_editor.cutouts STAMPS MODELS [--state FOLDER] [--out FILE]

STAMPS is the folder of the Debian package tuxpaint-stamps-default, whose images are not in this repository;
MODELS holds `efficientnet-lite0`, as `python -m counterpose_photographs.networks` writes it. Each cut-out
stands before one photographed ground, and edits ask for two others. One server puts it there as it is, one
moves it besides, one turns its hues. The suite has no CLIP: registration, SSIM and colour alone decide.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image, ImageOps

from counterpose_core.blobs import BlobStore, cache_key, digest
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.perturber import (
    CaptionEdit,
    LikelihoodsRequest,
    LikelihoodsResponse,
    Perturbations,
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.contract.preservation import FAULTS
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import UnknownModel
from counterpose_core.images.codecs import Pixels, encode_png, encode_raw
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import Suite
from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_core.transforms.arrays import Mask
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.services.ports import Services
from counterpose_photographs.cutouts import labels
from counterpose_photographs.scenes import backgrounds
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.paths import RESULTS, STATE
from evaluation.preservation.photographs import SIDE, composited, object_mask
from evaluation.preservation.planting import difference
from evaluation.product_speed.bare_engines import Bare
from evaluation.served_editor.oracle import captions_of
from evaluation.served_editor.running import PORT, editor_of, served_suite, worked_off
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_server import Asked, ImagesServer, Reply, drawing, images_server, refusal

OUT = RESULTS / "served-cutouts.json"
GROUNDS = ("grass", "gravel", "brick")
"""As `backgrounds` yields them; sources stand before the first."""
MOVED = {"2 %": 0.02, "4 %": 0.04, "8 %": 0.08}
HUES = {"45 degrees": 45.0, "90 degrees": 90.0}
"""Sizes of faults; thresholds were set in the rendered world, and figures on cut-outs alone take others."""
SEEN = 6.0
"""Mean ΔE*ab of an object from which on its turned hues are a fault: some are grey."""
GRAIN = 1.0
"""Standard deviation of a server's noise, in levels."""
ARMS: Mapping[str, Mapping[str, float]] = {"as asked": {"none": 0.0}, "moved": MOVED, "recoloured": HUES}
CLASSIFIER = "local:efficientnet-lite0"
SEED = 5


@dataclass(frozen=True)
class Cutout:
    """A cut-out, its class of ImageNet-1k, and the image that is uploaded."""

    name: str
    label: str
    image: Image.Image

    @property
    def caption(self) -> str:
        """The user's caption of the source."""
        return f"a photo of a {self.label} on the {GROUNDS[0]}"

    def before(self, ground: str, **fault: float) -> Pixels:
        """Return it (SIDE, SIDE, 3) before a ground."""
        return composited(self.image, grounds()[ground], **fault)


@cache
def grounds() -> dict[str, Image.Image]:
    """The photographed grounds by name, of the image's size."""
    fitted = (ImageOps.fit(image, (SIDE, SIDE), Image.Resampling.LANCZOS) for image in backgrounds())
    return dict(zip(GROUNDS, fitted, strict=True))


def read_cutouts(stamps: Path) -> list[Cutout]:
    """Read those of the labelled cut-outs that a folder has."""
    longest, found = round(SIDE * 0.76), []
    for path, label in labels().items():
        if (stamps / path).is_file():
            with Image.open(stamps / path) as image:
                fitted = ImageOps.contain(image.convert("RGBA"), (longest, longest), Image.Resampling.LANCZOS)
            found.append(Cutout(path, label, fitted))
    return found


class Grounds:
    """A perturber that changes the ground of a caption, and says a placebo in other words."""

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Name the other grounds by turns."""
        edits = [edits_of(one.caption, one.perturbation_type, one.seed) for one in request.items]
        outcomes = [Outcome[Perturbations](value=Perturbations(edits=each)) for each in edits]
        return PerturbResponse(outcomes=outcomes, model=ModelIdentity(id="script", revision="0" * 64))

    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        """Refuse: no language model is behind it."""
        raise UnknownModel(f"a script has no likelihood of {len(request.texts)} texts")


def edits_of(caption: str, kind: str, seed: int) -> list[CaptionEdit]:
    """Return the edits of a caption: each other ground, by turns, or other words of the same meaning."""
    if kind == "placebo":
        texts = [caption.replace("a photo of", "a picture of")]
    else:
        others = list(GROUNDS[1:])
        in_turn = others[seed % 2 :] + others[: seed % 2]
        texts = [caption.replace(f"the {GROUNDS[0]}", f"the {name}") for name in in_turn]
    return [CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts]


@dataclass
class Compositor:
    """Puts the cut-out before the ground that the edited caption names, with its arm's fault."""

    arm: str
    cutouts: Mapping[str, Cutout]

    def __call__(self, asked: Asked, _: threading.Event) -> Reply:
        """Answer ``POST /v1/images/edits``."""
        if asked.path != "/v1/images/edits" or asked.image is None:
            return refusal(404, "not_found", "Only edits are served.")
        image, seed = digest(encode_raw(asked.image)), int(str(asked.fields["seed"]))
        cutout, captions = self.cutouts.get(image), captions_of(str(asked.fields["prompt"]))
        if cutout is None:
            return refusal(400, "unknown_image", "The image shows no cut-out of mine.")
        ground = GROUNDS[0] if captions is None else next(name for name in GROUNDS if name in captions[1])
        pixels = cutout.before(ground, **self._amount(self.fault(image, ground)))
        grain = np.random.default_rng([SEED, seed]).normal(0.0, GRAIN, pixels.shape)
        answer = np.clip(np.rint(pixels + grain), 0, 255).astype(np.uint8)
        return drawing(encode_png(answer))

    def fault(self, image: str, ground: str) -> str:
        """Return the size of what it does to an image before a ground; `unseen` where nobody would see it."""
        if ground == GROUNDS[0]:
            return "none"
        cutout, sizes = self.cutouts[image], list(ARMS[self.arm])
        size = sizes[int(cache_key(cutout=cutout.name, ground=ground)[:8], 16) % len(sizes)]
        right, wrong = cutout.before(ground), cutout.before(ground, **self._amount(size))
        mask: Mask = object_mask(cutout.image)
        is_seen = self.arm != "recoloured" or difference(right, wrong, mask) >= SEEN
        return size if is_seen else "unseen"

    def _amount(self, fault: str) -> dict[str, float]:
        size = ARMS[self.arm].get(fault, 0.0)
        return {"as asked": {}, "moved": {"shift": size}, "recoloured": {"hue": size}}[self.arm]


def suite_without_clip(server: ImagesServer) -> Suite:
    """The suite of the served editor, whose scorer has no model at all."""
    suite = served_suite(server, mask=True)
    scorer = suite.scorer.model_copy(
        update={"clip": "", "sentence": "", "masked_lm": "", "objectionable": None}
    )
    editor = suite.editor.model_copy(update={"resolution": SIDE})
    return suite.model_copy(update={"scorer_part": scorer, "editor_part": editor})


async def ran(arm: str, cutouts: Sequence[Cutout], models: Path, folder: Path) -> tuple[dict[str, Any], str]:
    """Run the stress test on one server; returns its figures and its report."""
    sources = {digest(encode_raw(each.before(GROUNDS[0]))): each for each in cutouts}
    compositor = Compositor(arm, sources)
    store = BlobStore(str(folder / "store"))
    with images_server(compositor, PORT + 20 + list(ARMS).index(arm)) as server:
        suite = suite_without_clip(server)
        options = ClassifierOptions(models_folder=models)
        services = Services(
            captioner=cast(Any, None),
            perturber=Grounds(),
            editor=cast(Any, editor_of(suite, server, store, folder)),
            scorer=cast(Any, Bare(ScorerEngine.load(suite.scorer, folder, store))),
            classifiers=cast(Any, Bare(ClassifiersEngine.load(suite.classifiers, folder, store, options))),
        )
        ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        async with fake_gateway(
            folder, ports=lambda _: services, suite=suite, ledger=ledger, store=store
        ) as opened:
            await _upload(opened, cutouts)
            run_id = await worked_off(opened, _request())
            summary = StressTestSummary.model_validate_json(
                (await opened.http.get(f"/v1/runs/{run_id}/summary")).raise_for_status().content
            )
            report = (await opened.http.get(f"/v1/runs/{run_id}/report")).raise_for_status().text
            items = list(ledger.items.of(run_id, Item))
    return figures(items, summary, compositor), report


def _request() -> dict[str, Any]:
    fields = {"edit_types": ["background"], "max_edits_per_image": 2, "lance_r_edits_per_image": 0}
    gate = {"region": "background", "refused_faults": list(FAULTS), "preservation": "all"}
    return {"dataset": "cutouts", "classifiers": [CLASSIFIER], "confirm": False, "seed": SEED} | fields | gate


async def _upload(gateway: FakeGateway, cutouts: Sequence[Cutout]) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "cutouts", "classes": list(class_names().values())})
    for each in cutouts:
        mask = np.repeat((object_mask(each.image) * 255).astype(np.uint8)[..., None], 3, axis=2)
        source = {
            "filename": each.name.replace("/", "-"),
            "label": each.label,
            "caption": each.caption,
            "content_base64": base64.b64encode(encode_png(each.before(GROUNDS[0]))).decode(),
            "mask_base64": base64.b64encode(encode_png(mask)).decode(),
        }
        answer = await gateway.http.post("/v1/datasets/cutouts/sources", json={"sources": [source]})
        answer.raise_for_status()


def figures(items: Sequence[Item], summary: StressTestSummary, server: Compositor) -> dict[str, Any]:
    """Return how many edits were refused by the size of their fault, and what the answers came to."""
    judged: dict[str, list[bool]] = {}
    other: Counter[str] = Counter()
    for item in items:
        if item.kind != "edit":
            continue
        refused = item.reason == "gate-preservation"
        if (item.state != "done" and not refused) or item.result is None:
            other[item.reason or item.code or item.state] += 1
            continue
        ground = next(name for name in GROUNDS if name in (item.result.edited_caption or ""))
        fault = server.fault(item.source_image, ground)
        judged.setdefault(fault, []).append(refused)
    model = summary.models[CLASSIFIER]
    return {
        "refused": {
            name: proportion(sum(each), len(each)).model_dump() for name, each in sorted(judged.items())
        },
        "left out": dict(other),
        "controls": dict(Counter(item.state for item in items if item.kind == "reconstruction")),
        "absent": summary.absent,
        "accuracy": {
            "source": model.original.rate.model_dump(),
            "edits kept": model.counterfactual.rate.model_dump(),
            "drop": model.drop.model_dump(),
        },
        "verdict": summary.verdict,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the three servers and write the figures, with a report beside each run's state."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stamps", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--state", type=Path, default=STATE / "served-cutouts")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    cutouts = read_cutouts(given.stamps)
    if not cutouts:
        parser.error(f"{given.stamps} holds none of the labelled cut-outs")
    found: dict[str, Any] = {"cutouts": len(cutouts), "grounds": list(GROUNDS[1:]), "arms": {}}
    for arm in ARMS:
        (given.state / arm).mkdir(parents=True, exist_ok=True)
        found["arms"][arm], report = asyncio.run(ran(arm, cutouts, given.models, given.state / arm))
        (given.state / arm / "report.html").write_text(report, encoding="utf-8")
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
