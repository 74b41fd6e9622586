"""``make validate-transforms``: whether stress tests find planted sensitivities to operations on images.

    python -m evaluation.transforms_validity --seed 61 --state /somewhere --out transforms-validity.json

Trains classifiers with planted sensitivities, and controls, on operations of the suite `photographs`. Runs
the product on each, 96 and 480 images of its own, at the suite's levels, and adaptively at all levels of what
was planted in the whole model. Measures on fresh scenes what every
operation at every level costs each of them, and judges what the runs say. Each piece is kept: a call goes on
where an earlier one stopped, and reports what is done when it ends, or at once with ``--report``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from counterpose_core.blobs import cache_key
from counterpose_core.contract.transforms import TransformChoice, TransformSummary
from counterpose_core.types import Estimate
from counterpose_miniature.training.stage import use_threads, write_atomically
from counterpose_processes.signals import ended_by_signals
from evaluation.paths import RESULTS, STATE

from . import failure_points, figures
from .images import CONTROL, INPUT, Cell, cells_of
from .planted import SIZES, TESTED, Sensitivity, Taught, roster_of
from .report import FindingReport, LevelReport, PlantedReport, RunReport, TransformsValidity
from .running import SETS, ImageSet, SharedAnswers
from .training import LEARNED, MODEL, REHEARSED, Head, Size, Training, Trunk
from .truth import Pool, Truth

OUT = RESULTS / "transforms-validity.json"
CELLS = cells_of(TESTED)

T = TypeVar("T")


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make validate-transforms", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=61, help="stretch: of sensitivities, scenes and weights")
    parser.add_argument("--classifiers", type=int, default=14, help="classifiers with sensitivities")
    parser.add_argument("--planted", type=int, default=40, help="sensitivities of all of them")
    parser.add_argument("--controls", type=int, default=8, help="classifiers without")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="images of a run")
    parser.add_argument("--draws", type=int, default=3, help="runs that ask each classifier for levels")
    parser.add_argument("--trunks", type=int, default=1, help="trunks that the classifiers share")
    parser.add_argument("--processes", type=int, default=2, help="processes that run and measure")
    parser.add_argument("--rehearse", action="store_true", help="minutes, and no figure that means anything")
    parser.add_argument("--report", action="store_true", help="report what is done")
    parser.add_argument(
        "--state", type=Path, default=STATE / "transforms-validity", help="folder of finished pieces"
    )
    parser.add_argument("--note", default="", help="what else is to be known of these runs, for the record")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class Study:
    """The classifiers of a stretch, their runs and their truth."""

    roster: Sequence[Taught]
    sizes: Sequence[int]
    truth: Truth
    folder: Path
    draws: int

    @classmethod
    def of(cls, given: argparse.Namespace) -> Study:
        """The study that a command line asks for; pieces of another size or of other images lie apart."""
        size = REHEARSED if given.rehearse else Size()
        about = cache_key(size=vars(size), trunks=given.trunks, learned=LEARNED, model=MODEL, input=INPUT)
        state = given.state.absolute() / about[:8]
        models, work = state / "classifiers", state / "training"
        return cls(
            roster=roster_of(given.seed, given.classifiers, given.controls, given.planted),
            sizes=[int(each) for each in given.sizes.split(",")],
            truth=Truth(Training(given.seed, size, given.trunks, models, work), state),
            folder=state / "runs",
            draws=given.draws,
        )

    def run(self, number: int) -> None:
        """Run the product on the classifiers of a set of images, where that was not done."""
        mine = [one for one in self.roster if self.set_of(one) == number]
        wanted = [job for job in product(mine, self.sizes) if not self._path(*job).exists()]
        if not wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        images = ImageSet(self.truth.seed, number)
        answers = self._answers(self.truth.training.trunk_of(mine[0]), mine, images)
        for one, size in wanted:
            told = images.stress_test(one.name, size, answers)
            write_atomically(self._path(one, size), told.model_dump_json(by_alias=True).encode())
            sys.stdout.write(f"{one.name}, {size} images: {len(figures.findings_of(told))} findings\n")
            sys.stdout.flush()

    def find_levels(self, draw: int) -> None:
        """Ask the product adaptively where what was planted costs the stated loss, on a further set."""
        wanted = [
            one
            for one in self.roster
            if failure_points.asked_of(one) and not self._levels(one, draw).exists()
        ]
        if not wanted:
            return
        images = ImageSet(self.truth.seed, SETS + draw)
        for number in range(self.truth.training.trunks):
            mine = [one for one in wanted if self.truth.training.trunk_of(one) == number]
            answers = self._answers(number, mine, images)
            for one in mine:
                names = [each.operation for each in failure_points.asked_of(one)]
                choice = TransformChoice(operations=names, severity="adaptive")
                told = images.stress_test(one.name, min(self.sizes), answers, choice)
                write_atomically(self._levels(one, draw), told.model_dump_json(by_alias=True).encode())

    def level_reports(self) -> Iterator[LevelReport]:
        """What runs that are done say of levels, beside the truth."""
        for one, draw in product(self.roster, range(self.draws)):
            path = self._levels(one, draw)
            if path.exists():
                told = TransformSummary.model_validate_json(path.read_bytes()).severity
                assert told is not None
                losses = {
                    each.operation: {
                        cell[1]: self.truth.loss(one, pool, cell) for pool, cell in _about_levels(each)
                    }
                    for each in failure_points.asked_of(one)
                }
                yield from failure_points.level_reports(one, draw, told, losses)

    def _levels(self, one: Taught, draw: int) -> Path:
        return self.folder / f"{one.name}-levels-{draw}.json"

    def _answers(self, trunk: int, mine: Sequence[Taught], images: ImageSet) -> SharedAnswers:
        training = self.truth.training
        heads = {one.name: Head(training.folder / one.name) for one in mine}
        return SharedAnswers(Trunk(training.trunk_file(trunk)), heads, images.store)

    def set_of(self, one: Taught) -> int:
        """The number of a classifier's set of images; those of a set have the same trunk."""
        trunks, place = self.truth.training.trunks, self.roster.index(one)
        return place % trunks + trunks * (place // trunks % max(1, SETS // trunks))

    def _path(self, one: Taught, size: int) -> Path:
        return self.folder / f"{one.name}-{size}.json"

    @cached_property
    def done(self) -> dict[tuple[Taught, int], TransformSummary]:
        """The runs that are done, by classifier and number of images."""
        return {
            (one, size): TransformSummary.model_validate_json(self._path(one, size).read_bytes())
            for one, size in product(self.roster, self.sizes)
            if self._path(one, size).exists()
        }

    def base(self) -> list[tuple[Pool, Cell]]:
        """What is measured whatever runs say: every operation, and what was planted, at every level."""
        planted = [each for one in self.roster for each in one.sensitivities]
        return _sorted([(Pool(), cell) for cell in CELLS] + [each for one in planted for each in _about(one)])

    def claimed(self) -> list[tuple[Pool, Cell]]:
        """What runs say of single classes."""
        said = (each for told in self.done.values() for each in figures.findings_of(told))
        return _sorted((pool_of(each), _cell(each)) for each in said)


def pool_of(one: figures.Finding) -> Pool:
    """The scenes that a finding speaks of."""
    return Pool(one.object_class or None)


def _cell(one: figures.Finding) -> Cell:
    return one.operation, figures.level_of(one)


def _about(one: Sensitivity) -> Iterator[tuple[Pool, Cell]]:
    pool = Pool.of(one)
    yield from ((pool, cell) for cell in cells_of([one.operation]))


def _sorted(jobs: Iterable[tuple[Pool, Cell]]) -> list[tuple[Pool, Cell]]:
    """Each once, those of a pool together: a process renders a pool's scenes once."""
    unique = dict.fromkeys(job for job in jobs)
    # A class or a circumstance is compared with its own scenes, nothing changed.
    unique |= {(pool, CONTROL): None for pool, _ in list(unique)}
    return sorted(unique, key=lambda job: (job[0].name, job[1]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, run and measure what is missing, then report."""
    given = parsed(arguments)
    use_threads(1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    study = Study.of(given)
    if not given.report:
        training = study.truth.training
        for number in range(training.trunks):
            training.prepare(number, logging.getLogger("operations"))
        processes = ProcessPoolExecutor(given.processes, get_context("spawn"), partial(use_threads, 1))
        # Without it, who ends this process leaves the others behind.
        with ended_by_signals(), processes as pool:
            _all(pool, training.teach, study.roster, 1)
            _all(pool, study.run, sorted(set(map(study.set_of, study.roster))), 1)
            _all(pool, study.find_levels, range(study.draws), 1)
            _all(pool, study.truth.measure, study.base(), 12)
            _all(pool, study.truth.measure, study.claimed(), 4)
    report(study, given.out, given.note)


def _all(pool: ProcessPoolExecutor, work: Callable[[T], None], jobs: Sequence[T], together: int) -> None:
    for number, _ in enumerate(pool.map(work, jobs, chunksize=together), 1):
        if number % 20 == 0 or number == len(jobs):
            sys.stdout.write(f"{work.__name__}: {number} of {len(jobs)}\n")
            sys.stdout.flush()


def report(study: Study, out: Path, note: str = "") -> None:
    """Judge every run that is done, write the result file, and print each aim."""
    planted, findings, runs = list[PlantedReport](), list[FindingReport](), list[RunReport]()
    cells = dict[str, dict[str, list[list[float]]]]()
    tested = [one for one in study.roster if any((one, size) in study.done for size in study.sizes)]
    for one in tested:
        of_one = {size: study.done[one, size] for size in study.sizes if (one, size) in study.done}
        for each in one.sensitivities:
            by_level = {cell[1]: study.truth.loss(one, pool, cell) for pool, cell in _about_levels(each)}
            planted.append(figures.planted_report(one.name, each, by_level, of_one))
        losses = {cell: study.truth.loss(one, Pool(), cell) for cell in CELLS[1:]}
        cells[one.name] = _rows(study.truth, one, losses)
        for size, told in of_one.items():
            judged = [
                figures.finding_report(
                    (one.name, not one.sensitivities, size),
                    each,
                    study.truth.loss(one, pool_of(each), _cell(each)),
                )
                for each in figures.findings_of(told)
            ]
            findings += judged
            runs.append(_run_report(study, one, size, losses, judged))
    by_size = {size: figures.figures_of(size, planted, findings, runs) for size in study.sizes}
    said = list(study.level_reports())
    levels = failure_points.failure_points(said, min(study.sizes)) if said else None
    made = TransformsValidity(
        seed=study.truth.seed,
        classifiers=sum(bool(one.sensitivities) for one in tested),
        controls=sum(not one.sensitivities for one in tested),
        taught=sum(len(one.sensitivities) for one in study.roster),
        planned=len(study.roster) * len(study.sizes),
        fresh=study.truth.training.size.fresh,
        note=note,
        aims=figures.aims_of(by_size, levels),
        figures=by_size,
        failure_points=levels,
        planted=planted,
        findings=[each for each in findings if not (each.object_class and each.is_true)],
        runs=runs,
        cells=cells,
    )
    write_atomically(out, made.text().encode())
    for aim in made.aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.write(f"{out} written: {len(runs)} of {made.planned} runs\n")


def _about_levels(one: Sensitivity) -> Iterator[tuple[Pool, Cell]]:
    return (job for job in _about(one) if job[1] != CONTROL)


def _rows(truth: Truth, one: Taught, losses: Mapping[Cell, Estimate]) -> dict[str, list[list[float]]]:
    """The losses of each operation, a row for each level: of all classes, then of each."""
    rows = dict[str, list[list[float]]]()
    for cell, loss in losses.items():
        values = [loss.estimate or 0.0, *truth.by_class(one, cell).values()]
        rows.setdefault(cell[0], []).append([round(value, 3) for value in values])
    return rows


def _run_report(
    study: Study, one: Taught, size: int, losses: Mapping[Cell, Estimate], judged: Sequence[FindingReport]
) -> RunReport:
    told = study.done[one, size]
    printed = list(figures.printed_intervals(told))
    return RunReport(
        classifier=one.name,
        control=not one.sensitivities,
        image_set=study.set_of(one),
        size=size,
        accuracy=next(iter(told.controls.values())),
        true_accuracy=study.truth.accuracy(one),
        figures=len(told.figures),
        class_tests=0 if told.classes is None else told.classes.tested,
        findings=len(judged),
        false=sum(not each.is_true for each in judged),
        intervals=len(printed),
        covered=sum(figures.holds(loss, losses[cell]) for cell, loss in printed),
        covered_plainly=sum(figures.holds_plainly(loss, losses[cell]) for cell, loss in printed),
    )
