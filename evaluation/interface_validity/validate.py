"""``make validate-interface``: compare dataset interfaces with rendered truth.

    PYTHONPATH=demo python -m evaluation.interface_validity --seeds 0

Trains a zoo of classifiers on the seed's dataset, renders the truth and starts a stack of its own. There
a dataset interface learns one token per class, and a shift benchmark generates images of every class
under every shift, by token and by class name, and asks the zoo to classify them. The product's own filter
decides which images count. The oracle judges every image, and evaluation/results/interface-validity.json
receives the figures. Finished pieces stay in the state folder and are reused; interrupted runs resume.
The same command also learns six kinds of bus under code names, all starting from the word "bus", and
draws them by token, by that word and by a description; ``--fine-grained FILE`` measures only these.
``--calibrate`` prints the shift thresholds that the oracle accepts on development seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from counterpose_miniature.training.stage import use_threads, write_atomically
from counterpose_miniature.world.seeds import DEVELOPMENT, VALIDATION
from evaluation.interface_validity.assembly import Pieces, report
from evaluation.interface_validity.calibration import calibrated
from evaluation.interface_validity.campaign import Campaign
from evaluation.interface_validity.fine_grained_figures import fine_grained_figures
from evaluation.interface_validity.fine_grained_images import FineGrained, joined_fine_grained
from evaluation.interface_validity.joining import joined
from evaluation.interface_validity.order import Order
from evaluation.interface_validity.report import FineGrainedFigures, InterfaceValidity
from evaluation.paths import RESULTS, STATE
from evaluation.validity.serving import PORT, serving

INTERFACE_STATE = STATE / "interface-validity"
OUT = RESULTS / "interface-validity.json"
_CALIBRATED_ON, _CALIBRATED_IMAGES = 0, 6
"""Stretch of development seeds, and images of each class and shift."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make validate-interface",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", default="0", help="stretches of validation seeds, such as 0,1")
    parser.add_argument(
        "--images", type=int, default=Order.images, help="generated images per class and condition"
    )
    parser.add_argument("--truth", type=int, default=Order.truth, help="renderings per class and condition")
    parser.add_argument("--shifts", type=int, default=Order.most_shifts, help="number of shifts")
    parser.add_argument("--zoo", type=Path, help="folder of a trained zoo (default: train one)")
    parser.add_argument(
        "--state", type=Path, default=INTERFACE_STATE, help="folder that keeps finished pieces"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    parser.add_argument(
        "--port", type=int, default=PORT, help="port of the gateway; the services take the next one"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads that train and render")
    parser.add_argument("--smoke", action="store_true", help="train zoo and tokens for only a few steps")
    parser.add_argument(
        "--development", action="store_true", help="use development seeds, to choose settings"
    )
    parser.add_argument(
        "--fine-grained", type=Path, help="only measure the buses under code names; write their figures here"
    )
    parser.add_argument("--calibrate", action="store_true", help="only print the shift thresholds")
    return parser.parse_args(arguments)


def order_of(given: argparse.Namespace, number: int) -> Order:
    """Return what to validate in one stretch."""
    return Order(
        state=given.state.absolute(),
        split=DEVELOPMENT if given.development else VALIDATION,
        number=number,
        images=given.images,
        truth=given.truth,
        most_shifts=given.shifts,
        zoo=None if given.zoo is None else given.zoo.absolute(),
        smoke=given.smoke,
    )


def pieces_of(campaign: Campaign) -> Pieces:
    """Return everything that the figures of one stretch need; the stack starts when it is first needed."""
    truth, batching = campaign.truth, campaign.batching
    learned = [(item.item_group, item.result.cost) for item in campaign.tokens if item.result is not None]
    images, fine_grained = campaign.images, campaign.fine_grained
    return Pieces(
        seeds=[campaign.order.number],
        layout=campaign.order.layout,
        truth=truth,
        images=images,
        real_features=campaign.real_features(),
        base_features=campaign.base_features(),
        tokens=learned,
        batching=batching,
        fine_grained=fine_grained,
        seconds=campaign.seconds(),
    )


def measured(given: argparse.Namespace) -> InterfaceValidity:
    """Make every piece of every stretch, then the figures."""
    numbers = [int(number) for number in given.seeds.split(",")]
    pieces: list[Pieces] = []
    for order in (order_of(given, number) for number in numbers):
        with serving(order.stack, order.models, port=given.port) as service:
            pieces.append(pieces_of(Campaign(order, service)))
    return report(joined(pieces), np.random.default_rng(numbers))


def fine_grained_alone(given: argparse.Namespace) -> FineGrainedFigures:
    """Make the fine-grained piece of every stretch, and its figures."""
    numbers = [int(number) for number in given.seeds.split(",")]
    made: list[FineGrained] = []
    for order in (order_of(given, number) for number in numbers):
        with serving(order.stack, order.models, port=given.port) as service:
            made.append(Campaign(order, service).fine_grained)
    both = joined_fine_grained(made)
    assert both is not None
    return fine_grained_figures(both, np.random.default_rng(numbers))


def calibrate(state: Path, port: int) -> dict[str, float | None]:
    """Choose each shift's threshold by the oracle, on development images of class names."""
    order = Order(state=state.absolute(), split=DEVELOPMENT, number=_CALIBRATED_ON, images=_CALIBRATED_IMAGES)
    with serving(order.stack, order.models, port=port) as service:
        return calibrated(service.client(), order)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the result file and print each aim."""
    given = parsed(arguments)
    use_threads(given.threads)
    began = time.monotonic()
    if given.calibrate:
        sys.stdout.write(f"{json.dumps(calibrate(given.state, given.port), indent=2)}\n")
        return
    if given.fine_grained is not None:
        _write(given.fine_grained, fine_grained_alone(given))
        return
    made = measured(given)
    _write(given.out, made)
    for aim in made.aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.write(f"{given.out} written in {time.monotonic() - began:.0f} s\n")


def _write(path: Path, made: BaseModel) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{made.model_dump_json(indent=2)}\n".encode())


if __name__ == "__main__":
    main()
