"""``make validate-hunt``: compare bug hunts with rendered truth.

    python -m evaluation.hunt_validity --stretch 3 4 5 --images 640 --processes 2

Trains classifiers with and without planted bugs, hunts on each in this process, and compares what breaks with
renderings. Every classifier, image, caption and hunt is kept, so that a killed validation goes on.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from counterpose_core.contract.bug_hunts import HuntWords
from counterpose_core.suite import load_suite
from counterpose_miniature.training.stage import use_threads, write_atomically
from evaluation.paths import RESULTS, STATE
from evaluation.validity.roster import SUITE

from .engines import load_engines
from .figures import EFFECT, aims_of, by_attribute, fates_of, figures_of
from .hunting import hunt
from .planted import CLASSES, Taught, planned_hunts, roster_of
from .report import HuntValidity, Setting
from .study import DRAWN, Study
from .training import Training
from .truth import SCENES, SCENES_OF_A_FINDING, Truth

OUT = RESULTS / "hunt-validity.json"
USUAL_WORDS = "frequency"
VALIDATION = (3, 4, 5)
"""Stretches that nothing was tuned on. Stretch 0 is for tuning; 1 was seen when truth was read anew, and 2
when the generator's gap was set by it."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-hunt", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--stretch", type=int, nargs="+", default=VALIDATION, help="stretches of bugs and seeds"
    )
    parser.add_argument("--controls", type=int, default=6, help="classifiers without a bug")
    parser.add_argument("--labels", type=int, default=8, help="hunts of each of them")
    parser.add_argument("--images", type=int, default=640, help="budget of a hunt")
    parser.add_argument("--held-out", type=int, default=32, help="held-out images of a prompt")
    parser.add_argument("--steps", type=int, default=5, help="denoising steps")
    parser.add_argument("--vary", type=float, default=0.75, help="share of edited captions")
    parser.add_argument("--words", choices=get_args(HuntWords), default=USUAL_WORDS, help="source of words")
    parser.add_argument("--seed", type=int, default=11, help="seed of the hunts")
    parser.add_argument("--processes", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--part", help="work of one of the processes, as 0/2")
    parser.add_argument("--report", action="store_true", help="only report what is done")
    parser.add_argument(
        "--state", type=Path, default=STATE / "hunt-validity", help="folder of finished pieces"
    )
    parser.add_argument("--out", type=Path, help="result file; by default named by the source of words")
    given = parser.parse_args(arguments)
    given.out = given.out or out_of(given.words)
    return given


def out_of(words: str) -> Path:
    """The result file of hunts whose words come from there."""
    return OUT if words == USUAL_WORDS else OUT.with_stem(f"{OUT.stem}-{words}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Share the work among processes, then report; or do one process's part."""
    given = parsed(arguments)
    use_threads(1)
    if given.part:
        own_part, parts = map(int, given.part.split("/"))
        for study in studies_of(given):
            _work(study, given.state.absolute(), own_part, parts)
        return
    if not given.report:
        own = list(sys.argv[1:] if arguments is None else arguments)
        shares = [f"{number}/{given.processes}" for number in range(given.processes)]
        command = [sys.executable, "-m", "evaluation.hunt_validity", *own]
        workers = [subprocess.Popen([*command, "--part", part]) for part in shares]
        # The parts wait for each other's classifiers: without one of them the rest would wait for ever.
        while all(worker.poll() in (None, 0) for worker in workers):
            if all(worker.poll() == 0 for worker in workers):
                break
            time.sleep(1.0)
        else:
            for worker in workers:
                worker.terminate()
            raise SystemExit("a part ended early: start again to resume it")
    report(given)


def studies_of(given: argparse.Namespace) -> list[Study]:
    """The hunts that are asked for, by stretch."""
    shared: dict[str, Any] = {
        "budget": {"images": given.images},
        "held_out": given.held_out,
        "steps": given.steps,
        "vary": given.vary,
        "hypotheses": 6,
        "seed": given.seed,
    }
    # Only where it differs: hunts that are kept without it stay valid.
    if given.words != USUAL_WORDS:
        shared["words"] = given.words
    return [_study(given, stretch, shared) for stretch in given.stretch]


def _study(given: argparse.Namespace, stretch: int, shared: dict[str, Any]) -> Study:
    state, roster = given.state.absolute(), roster_of(stretch, given.controls)
    return Study(
        stretch=stretch,
        roster=roster,
        planned=planned_hunts(roster, given.labels),
        shared=shared,
        folder=state / "hunts",
        models=state / "classifiers",
        truth=Truth(stretch, state / "truth"),
    )


def _work(study: Study, state: Path, number: int, parts: int) -> None:
    training = Training(study.stretch, study.models, state / "training")
    log = logging.getLogger(__name__)
    training.run([one for one in study.roster if _family(one, study.roster) % parts == number], log)
    suite = load_suite(SUITE)
    engines = load_engines(suite, study.models, state)
    for one in study.planned:
        # By label: the hunts of a label share images, which one process makes.
        if CLASSES.index(one.label) % parts != number:
            continue
        # Another process may still be training it.
        while not training.is_done(one.taught):
            time.sleep(5.0)
        if study.done(one) is None:
            engines.refresh()
            began = time.process_time()
            summary = hunt(study.request(one), engines, suite)
            study.keep(one, summary)
            took = f"{summary.images} images, {time.process_time() - began:.0f} s of the processor"
            sys.stdout.write(f"{one.taught.name} {one.label}: {took}; {summary.verdict}\n")
            sys.stdout.flush()
        proven = study.done(one)
        again = None if proven is None else study.drawn_again(one, proven)
        if again is not None and not study.drawn_path(one).exists():
            study.keep_drawn(one, hunt(again, engines, suite))


def _family(one: Taught, roster: Sequence[Taught]) -> int:
    """The number of the control that a classifier begins as, or its own."""
    return one.number if one.begins_as is None else next(x.number for x in roster if x.name == one.begins_as)


def report(given: argparse.Namespace) -> None:
    """Compare every hunt that is done with renderings, write the result file, and print each aim."""
    studies = studies_of(given)
    roster = [one for study in studies for one in study.roster]
    done = [
        (study, one, summary)
        for study in studies
        for one in study.planned
        if (summary := study.done(one)) is not None
    ]
    bugs = [study.bug_report(one, bug, summary) for study, one, summary in done for bug in one.bugs]
    claims = [claim for study, one, summary in done for claim in study.claims(one, summary)]
    hunts = [study.hunt_report(one, summary) for study, one, summary in done]
    controls = {one.name for one in roster if not one.bugs}
    figures = figures_of(bugs, claims, hunts, controls)
    made = HuntValidity(
        setting=Setting(
            stretches=[study.stretch for study in studies],
            classifiers=len({one.taught.name for _, one, _ in done if one.bugs}),
            controls=len({one.taught.name for _, one, _ in done if one.is_control}),
            planted=sum(len(one.bugs) for one in roster),
            hunts=len(done),
            planned=sum(len(study.planned) for study in studies),
            request=studies[0].shared,
            scenes=SCENES,
            scenes_of_a_finding=SCENES_OF_A_FINDING,
            effect=EFFECT,
            drawn=DRAWN,
        ),
        aims=aims_of(figures),
        figures=figures,
        fates=fates_of(bugs),
        by_attribute=by_attribute(bugs),
        bugs=bugs,
        claims=claims,
        hunts=hunts,
    )
    write_atomically(given.out, f"{made.model_dump_json(indent=2)}\n".encode())
    for aim in made.aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.write(f"{given.out} written: {len(done)} of {made.setting.planned} hunts\n")
