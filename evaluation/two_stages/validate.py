"""``make validate-findings``: compare runs of one and two stages with rendered truth.

    PYTHONPATH=demo python -m evaluation.two_stages --seed 4 --sizes 48,96,160,400

Trains the classifiers that the rosters lack. Makes the items of one test of all images in one stage, then
replays runs of small rosters on nested folders by the product's own plan, stages and summary. Items that
several runs share are made once and kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.suite import load_suite
from counterpose_gateway.settings import GatewaySettings
from counterpose_miniature.training.bugs import read_bugs
from counterpose_miniature.training.stage import use_threads, write_atomically
from evaluation.paths import RESULTS, STATE
from evaluation.validity.command import VALIDITY_STATE
from evaluation.validity.contestants import BUG_FILES
from evaluation.validity.order import generator
from evaluation.validity.report import Aim
from evaluation.validity.roster import SUITE, suite_classifiers, train_missing
from evaluation.validity.serving import STACK, serving
from evaluation.validity.sources import distribution_of, scenes_of, upload

from .bank import Bank
from .figures import ALL, Counted, aims_of, figures_of, suspicions_true
from .making import make
from .report import FindingsValidity, RunReport, Setting, Stages
from .rosters import NAMES, needed, rosters
from .stretch import SIZES, Folder, Stretch
from .study import Study

OUT = RESULTS / "findings-validity.json"
PORT = 8380
"""Another port than that of `make validate`, so that both can run; the services take the next one."""
BOTH: tuple[Stages, ...] = ("two", "one")
"""Two stages first: they make the items that take the time."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-findings", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=4, help="stretch of validation seeds")
    parser.add_argument("--sources", type=int, default=400, help="images of the stretch")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="images of a run")
    parser.add_argument("--parts", type=int, default=1, help="disjoint folders of each size, at most")
    parser.add_argument(
        "--rosters", type=roster_names, default=NAMES, help="rosters to test, such as suite,controls"
    )
    parser.add_argument("--preset", default="quick", help="preset of the suite's editor")
    parser.add_argument("--edits", type=int, default=5, help="planned edits per image")
    parser.add_argument(
        "--classifiers",
        type=Path,
        default=VALIDITY_STATE / "classifiers-150-steps",
        help="folder of the classifiers that `make validate` trains",
    )
    parser.add_argument("--state", type=Path, default=STATE / "two-stages", help="folder of finished pieces")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    parser.add_argument("--port", type=int, default=PORT, help="port of the gateway")
    parser.add_argument("--threads", type=int, default=2, help="threads that render and predict")
    return parser.parse_args(arguments)


def roster_names(text: str) -> tuple[str, ...]:
    """Read names of rosters, parted by commas.

    Raises:
        argparse.ArgumentTypeError: there is no such roster.
    """
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in NAMES]:
        raise argparse.ArgumentTypeError(f"there is no roster {unknown[0]!r}; there are {', '.join(NAMES)}")
    return names


def study_of(given: argparse.Namespace, settings: GatewaySettings) -> tuple[Study, list[str]]:
    """Return the study with the services behind ``settings``, and the rosters that are not trained."""
    state = given.state.absolute()
    found, missing = rosters(given.classifiers.absolute())
    study = Study(
        stretch=stretch_of(given.seed, given.sources),
        rosters=found,
        suite=load_suite(SUITE),
        settings=settings,
        bank=Bank(state / f"bank-{given.seed}.jsonl"),
        make=partial(make, settings=settings),
        store=BlobStore(settings.store_url),
        state=state,
        preset=given.preset,
        edits=given.edits,
    )
    return study, missing


def stretch_of(seed: int, sources: int) -> Stretch:
    """The scenes of a stretch: each class mostly shows what some classifier of any roster leans on."""
    taught = [bug for one in suite_classifiers() for bug in one.bugs]
    taught += [bug for file in sorted(BUG_FILES.glob("*.json")) for bug in read_bugs(file)]
    return Stretch(seed, scenes_of(seed, sources, distribution_of("as-trained", taught)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what lacks, start the services, upload the images, and measure."""
    given = parsed(arguments)
    use_threads(given.threads)
    train_missing(needed(given.rosters, given.classifiers.absolute()), VALIDITY_STATE / "training")
    with serving(given.state.absolute() / STACK, given.classifiers.absolute(), port=given.port) as service:
        study, missing = study_of(given, service.settings)
        upload(service.client(), study.stretch.dataset_name, study.stretch.scenes)
        measure(study, given, missing)


def measure(study: Study, given: argparse.Namespace, missing: Sequence[str]) -> None:
    """Replay every run, write the result file after each roster, and print each aim."""
    began, counted = time.monotonic(), Counted([], [], [], [])
    aims, lines = list[Aim](), list[str]()
    left = [one.name for one in study.rosters]
    for roster in (one for one in study.rosters if one.name in given.rosters):
        for folder, stages in product(_folders(given), BOTH):
            counted += study.run(roster, folder, confirm=stages == "two")
            sys.stdout.write(f"{told(counted.runs[-1])}\n")
            sys.stdout.flush()
        left.remove(roster.name)
        made = report(study, counted, [*missing, *left])
        aims, lines = made.aims, list(costs_told(made))
        write_atomically(given.out, f"{made.model_dump_json(indent=2)}\n".encode())
    for aim in aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"{given.out} written in {time.monotonic() - began:.0f} s\n")


def _folders(given: argparse.Namespace) -> Iterator[Folder]:
    for size in map(int, given.sizes.split(",")):
        for part in range(min(given.parts, given.sources // size)):
            yield Folder(size, part)


def told(run: RunReport) -> str:
    """A run in one line."""
    return (
        f"{run.roster} {run.size}/{run.part} {run.stages}: {run.made} images, {run.items} items,"
        f" {run.evaluations} network evaluations, {run.service_seconds:.0f} s of services,"
        f" {run.hypotheses} hypotheses, {run.confirmed} confirmed, {run.suspected} suspected"
    )


def costs_told(made: FindingsValidity) -> Iterator[str]:
    """What a true finding of two stages took, a line for each size."""
    for name, one in made.figures.items():
        cost = one["two"].evaluations_per_proof
        if cost is not None and cost.estimate is not None and cost.low is not None and cost.high is not None:
            images = "all sizes" if name == ALL else f"{name} images"
            yield (
                f"{images}: {cost.estimate:,.0f} network evaluations of a run for each true finding that it"
                f" proves ({cost.low:,.0f} to {cost.high:,.0f}, n={cost.n})"
            )


def report(study: Study, counted: Counted, missing: Sequence[str]) -> FindingsValidity:
    """All figures of the runs so far."""
    sizes = sorted({run.size for run in counted.runs})
    groups: dict[str, int | None] = {str(size): size for size in sizes} | {ALL: None}
    return FindingsValidity(
        setting=Setting(
            seed=study.stretch.seed,
            sources=len(study.stretch.scenes),
            edits_per_source=study.edits,
            preset=study.preset,
            rosters={one.name: one.specs for one in study.rosters if one.name not in missing},
            controls=study.controls,
            missing=list(missing),
        ),
        aims=aims_of(counted, generator("aims")),
        figures={
            name: {
                stages: figures_of(counted.of(stages, size), generator(f"figures {name} {stages}"))
                for stages in BOTH
            }
            for name, size in groups.items()
        },
        by_scope={
            scope: figures_of(counted.of("two").of_scope(scope), generator(f"scope {scope}"))
            for scope in ("class", "images")
        },
        suspected=suspicions_true(counted.claims, generator("suspected")),
        bugs=study.bugs,
        runs=list(counted.runs),
        claims=list(counted.claims),
        chances=list(counted.chances),
        controls=list(counted.controls),
    )
