"""``make validate-interface``: hold dataset interfaces against rendered truth: demo/interface-validity.json.

    PYTHONPATH=demo python tests/validity/validate_interface.py --seeds 0

Trains a zoo on the seed's dataset, renders the truth, learns a token of each class, makes pictures of class x
shift by token and by name, asks zoo, CLIP and oracle about each, and writes the figures. Every finished piece
is kept in the state folder and not made again. Shift thresholds are the suite's; ``--calibrate`` prints what
development seeds alone make of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from faultline_core.suite import load_suite
from faultline_miniature.training.stage import use_threads, write_atomically
from faultline_miniature.world.seeds import DEVELOPMENT, VALIDATION
from interfaces.assembly import Pieces, report
from interfaces.campaign import SOURCES, Campaign, Order
from interfaces.filter_figures import shift_threshold
from interfaces.joining import joined
from interfaces.world_shifts import WORLD_SHIFTS
from validation.roster import SUITE

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".faultline/interface-validity"
OUT = ROOT / "demo/interface-validity.json"
_CALIBRATED_ON = 0
"""Stretch of development seeds."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-interface", description=__doc__)
    parser.add_argument("--seeds", default="0", help="numbers of stretches of validation seeds: 0,1")
    parser.add_argument("--pictures", type=int, default=Order.pictures, help="of each class and condition")
    parser.add_argument(
        "--truth", type=int, default=Order.truth, help="renderings of each class and condition"
    )
    parser.add_argument("--state", type=Path, default=STATE, help="where finished pieces are kept")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="train the zoo for a few steps only")
    parser.add_argument(
        "--development", action="store_true", help="the same on development seeds, to choose settings by"
    )
    parser.add_argument("--calibrate", action="store_true", help="settle the shift thresholds, and end")
    return parser.parse_args(arguments)


def campaign_of(given: argparse.Namespace, number: int, *, development: bool) -> Campaign:
    """The campaign of one stretch."""
    suite = load_suite(SUITE)
    order = Order(
        state=given.state.absolute(),
        split=DEVELOPMENT if development else VALIDATION,
        number=number,
        preset=suite.editor.textual_inversion,
        generation=suite.editor.generation,
        pictures=given.pictures,
        truth=given.truth,
        smoke=given.smoke,
    )
    return Campaign(order, suite)


def pieces_of(campaign: Campaign) -> Pieces:
    """All that the figures of one stretch are made of."""
    known = campaign.engines.suite.scorer.shift_thresholds
    return Pieces(
        seeds=[campaign.order.number],
        layout=campaign.layout,
        truth=campaign.truth,
        pictures=campaign.pictures,
        real_features=campaign.real_features,
        real_similarities=campaign.real_similarities(photo=True),
        real_style_similarities=campaign.real_similarities(photo=False),
        base_features=campaign.base_features(),
        shift_thresholds={shift.name: known[shift.name] for shift in WORLD_SHIFTS},
        tokens=[token.cost for token in campaign.tokens.values()],
        seconds=campaign.seconds(),
    )


def calibrate(campaign: Campaign) -> dict[str, float | None]:
    """Settle each shift's threshold by the oracle on development pictures of both sources."""
    pictures = campaign.pictures
    assert {one.source for one in pictures} == set(SOURCES)
    return {shift.name: shift_threshold(shift.name, pictures) for shift in WORLD_SHIFTS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Validate, write, say what was reached."""
    given = parsed(arguments)
    use_threads(given.threads)
    began = time.monotonic()
    if given.calibrate:
        found = calibrate(campaign_of(given, _CALIBRATED_ON, development=True))
        sys.stdout.write(f"{json.dumps(found, indent=2)}\n")
        return
    numbers = [int(number) for number in given.seeds.split(",")]
    campaigns = [campaign_of(given, number, development=given.development) for number in numbers]
    made = report(joined([pieces_of(each) for each in campaigns]), np.random.default_rng(numbers))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(given.out, f"{made.model_dump_json(indent=2)}\n".encode())
    for aim in made.aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.write(f"{given.out} written in {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
