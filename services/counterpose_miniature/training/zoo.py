"""Twelve classifiers of one user's dataset: four architectures, each trained for three lengths.

All use the same images and differ in the seed of the weights, the architecture and the length, so that they
spread along a line of accuracy in and out of distribution. None is trained on the dataset's mismatches: a
classifier that has only seen plates with food has to generalise to an empty plate.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm

from counterpose_miniature.training.classifier import Order, train_classifier
from counterpose_miniature.training.stage import (
    StageContext,
    figures_of,
    finish,
    stage_log,
    use_threads,
    write_atomically,
)
from counterpose_miniature.world.user_dataset import USER_DATASET

STAGE = "zoo"
FOLDER = "zoo"
METADATA = "metadata.json"
LENGTHS: Mapping[str, Mapping[str, int]] = {
    "mambaout": {"short": 60, "medium": 100, "long": 240},
    "convnext": {"short": 60, "medium": 100, "long": 240},
    "efficientnet": {"short": 30, "medium": 50, "long": 90},
    "vit": {"short": 200, "medium": 480, "long": 720},
}
"""Steps of each training."""
_IMAGES, _BATCH, _MEASURED = 6000, 64, 60
# The first stretch of seeds; the suite's and the validations' classifiers use stretches below.
_FIRST_STRETCH = 500


@dataclass(frozen=True)
class Member:
    """One classifier of the zoo: its architecture, the length of its training, and its number."""

    architecture: str
    length: str
    number: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"zoo-{self.architecture}-{self.length}"

    @property
    def steps(self) -> int:
        """The number of its training steps."""
        return LENGTHS[self.architecture][self.length]

    def order(self, seed: int) -> Order:
        """Return the training order; members with the same seed share their images."""
        return Order(
            f"test_{self.architecture}",
            (),
            seed=1000 * (seed + 1) + self.number,
            images=_IMAGES,
            batch=_BATCH,
            steps=self.steps,
            measured=_MEASURED,
            shown=USER_DATASET,
            images_of=_FIRST_STRETCH + seed,
        )


MEMBERS: tuple[Member, ...] = tuple(
    Member(architecture, length, number)
    for number, (architecture, length) in enumerate(
        (architecture, length) for architecture, lengths in LENGTHS.items() for length in lengths
    )
)


def metadata(member: Member, folder: Path) -> dict[str, Any]:
    """Return a trained member's properties, by which a report may group."""
    config = json.loads((folder / "config.json").read_text())
    # A new network, because saved weights include batch normalisation's running means, which are not trained.
    network = timm.create_model(
        config["architecture"], num_classes=config["num_classes"], **config["model_args"]
    )
    return {
        "architecture": config["architecture"],
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "steps": member.steps,
        "resolution": config["pretrained_cfg"]["input_size"][-1],
        "pretraining": "none",
    }


def train_member(
    member: Member, seed: int, out: Path, work: Path, log: logging.Logger, *, smoke: bool = False
) -> dict[str, Any]:
    """Train one member in its folder under ``out``, with its metadata; return its figures."""
    order, folder = member.order(seed), out / member.name
    figures = train_classifier(order.small() if smoke else order, folder, work / f"seed-{seed}", log)
    write_atomically(folder / METADATA, (json.dumps(metadata(member, folder), indent=2) + "\n").encode())
    return figures


def train(context: StageContext) -> None:
    """Train those members of the zoo that have no figures yet."""
    use_threads(context.threads)
    for member in MEMBERS:
        stage = f"{STAGE}/{member.name}"
        if figures_of(context, stage) is not None:
            continue
        with stage_log(context, stage) as log:
            figures = train_member(
                member, context.seed, context.out / FOLDER, context.folder(STAGE), log, smoke=context.smoke
            )
        finish(context, stage, figures)


def main(arguments: list[str] | None = None) -> None:
    """Train a zoo with another seed than the suite's from the command line."""
    parser = argparse.ArgumentParser(prog="counterpose_miniature.training.zoo", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the classifiers' folders")
    parser.add_argument("--work", type=Path, default=Path(".miniature/zoo"), help="folder for checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="train only these members")
    parser.add_argument("--smoke", action="store_true", help="a few steps only")
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    log = logging.getLogger(__name__)
    for member in MEMBERS:
        if given.only and member.name not in given.only:
            continue
        done = given.out / member.name / "figures.json"
        if not done.exists():
            figures = train_member(member, given.seed, given.out, given.work, log, smoke=given.smoke)
            write_atomically(done, (json.dumps(figures, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
