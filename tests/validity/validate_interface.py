"""``make validate-interface``: hold dataset interfaces against rendered truth: demo/interface-validity.json.

    PYTHONPATH=tests:demo python tests/validity/validate_interface.py --seeds 0

Trains a zoo on the seed's dataset, renders the truth, and asks a stack of its own: a dataset interface learns
a token of each class, a shift benchmark makes pictures of class x shift by token and by name and has the zoo
answer them. Kept is what the product's filter keeps. The oracle looks at every picture, and the figures are
written. Every finished piece is kept in the state folder and not made again, runs are taken up where they
were left. Beside it six kinds of bus are learned under codes, from the one word "bus", and drawn by their
tokens, by that word and by words that describe them: ``--fine-grained FILE`` measures these alone.
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

from faultline_miniature.training.stage import use_threads, write_atomically
from faultline_miniature.world.seeds import DEVELOPMENT, VALIDATION
from interfaces.assembly import Pieces, report
from interfaces.calibration import calibrated
from interfaces.campaign import Campaign
from interfaces.fine_grained_figures import fine_grained_figures
from interfaces.fine_grained_pictures import FineGrained, joined_fine_grained
from interfaces.joining import joined
from interfaces.order import Order
from interfaces.report import FineGrainedFigures, InterfaceValidity
from validation.serving import PORT, serving

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".faultline/interface-validity"
OUT = ROOT / "demo/interface-validity.json"
_CALIBRATED_ON, _CALIBRATED_PICTURES = 0, 6
"""Stretch of development seeds, and pictures of each class and shift."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-interface", description=__doc__)
    parser.add_argument("--seeds", default="0", help="numbers of stretches of validation seeds: 0,1")
    parser.add_argument("--pictures", type=int, default=Order.pictures, help="of each class and condition")
    parser.add_argument(
        "--truth", type=int, default=Order.truth, help="renderings of each class and condition"
    )
    parser.add_argument("--shifts", type=int, default=Order.most_shifts, help="take so many of the shifts")
    parser.add_argument("--zoo", type=Path, help="folder of a trained zoo; without it one is trained")
    parser.add_argument("--state", type=Path, default=STATE, help="where finished pieces are kept")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--port", type=int, default=PORT, help="of the gateway; the services take the next")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="zoo and tokens learn for a few steps only")
    parser.add_argument(
        "--development", action="store_true", help="the same on development seeds, to choose settings by"
    )
    parser.add_argument(
        "--fine-grained", type=Path, help="measure buses under codes alone, write their figures here, and end"
    )
    parser.add_argument("--calibrate", action="store_true", help="settle the shift thresholds, and end")
    return parser.parse_args(arguments)


def order_of(given: argparse.Namespace, number: int) -> Order:
    """The order of one stretch."""
    return Order(
        state=given.state.absolute(),
        split=DEVELOPMENT if given.development else VALIDATION,
        number=number,
        pictures=given.pictures,
        truth=given.truth,
        most_shifts=given.shifts,
        zoo=None if given.zoo is None else given.zoo.absolute(),
        smoke=given.smoke,
    )


def pieces_of(campaign: Campaign) -> Pieces:
    """All that the figures of one stretch are made of; the stack comes up once it is asked."""
    truth, batching = campaign.truth, campaign.batching
    learned = [(item.source_id, item.result.cost) for item in campaign.tokens if item.result is not None]
    pictures, fine_grained = campaign.pictures, campaign.fine_grained
    return Pieces(
        seeds=[campaign.order.number],
        layout=campaign.order.layout,
        truth=truth,
        pictures=pictures,
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
    """Settle each shift's threshold by the oracle, on development pictures of class names."""
    order = Order(
        state=state.absolute(), split=DEVELOPMENT, number=_CALIBRATED_ON, pictures=_CALIBRATED_PICTURES
    )
    with serving(order.stack, order.models, port=port) as service:
        return calibrated(service.client(), order)


def main(arguments: Sequence[str] | None = None) -> None:
    """Validate, write, say what was reached."""
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
