"""``python -m evaluation.hunt_validity.compare_words``: which way to words finds more planted bugs.

    python -m evaluation.hunt_validity.compare_words --stretch 0 --controls 6

Runs the hunts of a stretch twice, with words that captions of failures have more often than captions of
successes and with the captioner's likeliest sentences (the paper's way), one after the other, and compares
them bug by bug. What is done is kept, as by ``make validate-hunt``, whose classifiers and images it shares; a
comparison that was stopped has pairs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from counterpose_core.suite import load_suite
from counterpose_miniature.training.stage import use_threads, write_atomically
from evaluation.paths import RESULTS, STATE
from evaluation.validity.roster import SUITE

from .engines import load_engines
from .hunting import hunt
from .report import HuntValidity
from .study import Study
from .training import Training
from .validate import parsed, report, studies_of
from .words import WAYS, Way, compared

OUT = RESULTS / "hunt-words.json"
DEVELOPMENT = 0
"""The stretch that is for tuning."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the hunts both ways, or only compare what is done."""
    parser = argparse.ArgumentParser(prog="evaluation.hunt_validity.compare_words", description=__doc__)
    parser.add_argument("--stretch", type=int, default=DEVELOPMENT, help="stretch of bugs and seeds")
    parser.add_argument("--controls", type=int, default=6, help="half as many as classifiers with bugs")
    parser.add_argument("--images", type=int, default=640, help="budget of a hunt")
    parser.add_argument("--report", action="store_true", help="only compare what is done")
    parser.add_argument("--state", type=Path, default=STATE / "hunt-validity", help="finished pieces")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    given = parser.parse_args(arguments)
    use_threads(1)
    requests = {way: _request(given, way) for way in WAYS}
    studies = {way: studies_of(request)[0] for way, request in requests.items()}
    if not given.report:
        _work(studies, given.state.absolute())
    made: dict[Way, HuntValidity] = {}
    for way, request in requests.items():
        report(request)
        made[way] = HuntValidity.model_validate_json(request.out.read_bytes())
    found = compared(made)
    write_atomically(given.out, f"{found.model_dump_json(indent=2)}\n".encode())
    sys.stdout.write(f"{given.out} written: {found.hunts} of {found.planned} hunts; {found.strong}\n")


def _request(given: argparse.Namespace, way: Way) -> argparse.Namespace:
    # No hunt of a classifier without bugs: there is none to find.
    asked = ["--stretch", given.stretch, "--controls", given.controls, "--labels", 0, "--words", way]
    asked += ["--images", given.images, "--state", given.state]
    asked += ["--out", given.state / f"words-{given.stretch}-{way}.json"]
    return parsed([str(argument) for argument in asked])


def _work(studies: dict[Way, Study], state: Path) -> None:
    first, log = studies["frequency"], logging.getLogger(__name__)
    training = Training(first.stretch, first.models, state / "training")
    suite = load_suite(SUITE)
    engines = load_engines(suite, first.models, state)
    for one in first.planned:
        names = (one.taught.begins_as, one.taught.name)
        training.run([taught for taught in first.roster if taught.name in names], log)
        for way, study in studies.items():
            if study.done(one) is None:
                summary = hunt(study.request(one), engines, suite)
                study.keep(one, summary)
                sys.stdout.write(f"{one.taught.name} {one.label}, {way}: {summary.verdict}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
