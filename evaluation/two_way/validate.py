"""``make validate-conjunctions``: whether stress tests name both conditions of bugs that need two.

Trains classifiers with three such bugs each, runs stress tests in two stages on them and on classifiers
without, over one stretch of images, and compares what is proven with renderings. A run's budget is that of
its images, however many classifiers share it, so runs of two and of four are told apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import load_suite
from counterpose_gateway.settings import GatewaySettings
from counterpose_miniature.training.stage import use_threads, write_atomically
from evaluation.paths import RESULTS, STATE
from evaluation.two_stages.answers import Answers
from evaluation.two_stages.bank import Bank
from evaluation.two_stages.making import make
from evaluation.two_stages.replay import Replayed, plan, replay
from evaluation.two_stages.rosters import SIZE, Roster
from evaluation.two_stages.stretch import Folder, Stretch
from evaluation.two_stages.validate import stretch_of
from evaluation.validity.command import VALIDITY_STATE
from evaluation.validity.contestants import BUG_FILES, Contestant
from evaluation.validity.measures import clustered_share, share
from evaluation.validity.order import generator
from evaluation.validity.roster import SUITE, suite_classifiers, train_missing, trained, trainings
from evaluation.validity.serving import STACK, serving
from evaluation.validity.sources import upload

from .bugs import TwoWayBug
from .bugs import trainings as two_way_trainings
from .conditions import meets, named, proven, tested
from .report import (
    ALONE,
    TOGETHER,
    ConjunctionReport,
    TwoWayBugReport,
    TwoWayFigures,
    TwoWayRecord,
    TwoWayRun,
)
from .truth import estimates, falls, joint_truth

PORT = 8480


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what lacks, start the services, run, and write the result file after each run."""
    given = _parsed(arguments)
    use_threads(given.threads)
    folder = given.state.absolute() / "classifiers"
    folder.mkdir(parents=True, exist_ok=True)
    own = [
        each.contestant(folder, given.state / "training")
        for each in two_way_trainings(given.classifiers, given.controls, given.seed)
    ]
    others = [*own[given.classifiers :], *_single(folder)]
    with serving(given.state.absolute() / STACK, folder, port=given.port) as service:
        stretch = stretch_of(given.seed, given.sources)
        upload(service.client(), stretch.dataset_name, stretch.scenes)
        record = TwoWayRecord(figures=[])
        for together in sorted(map(int, given.together.split(","))):
            rosters = [("two-way", one) for one in _rosters("two-way", own[: given.classifiers], together)]
            rosters += [("others", one) for one in _rosters("others", others, together)]
            record = _measure(given, stretch, together, rosters, service.settings, record)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make validate-conjunctions", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="stretch of validation seeds")
    parser.add_argument("--size", type=int, default=160, help="images of a run")
    parser.add_argument("--sources", type=int, default=400, help="images of the stretch, for the truth")
    parser.add_argument("--classifiers", type=int, default=9, help="classifiers with three bugs each")
    parser.add_argument("--together", default=f"2,{SIZE}", help="classifiers of a run")
    parser.add_argument("--controls", type=int, default=4, help="more classifiers without bugs")
    parser.add_argument("--state", type=Path, default=STATE / "two-way", help="folder of finished pieces")
    parser.add_argument("--out", type=Path, default=RESULTS / "two-way.json", help="result file")
    parser.add_argument("--port", type=int, default=PORT, help="port of the gateway")
    parser.add_argument("--threads", type=int, default=2, help="threads that train, render and predict")
    return parser.parse_args(arguments)


def _single(folder: Path) -> list[Contestant]:
    """The suite's classifiers and six of `make validate`: controls, and bugs that need one condition."""
    every = trainings(sorted(BUG_FILES.glob("*.json")), folder)
    wanted = [each for each in every if each.seed % 10 == 0 or each.seed in (101, 102)]
    train_missing(wanted, VALIDITY_STATE / "training")
    return [*suite_classifiers(), *trained(wanted)]


def _rosters(name: str, classifiers: Sequence[Contestant], together: int) -> Iterator[Roster]:
    for start in range(0, len(classifiers), together):
        yield Roster(f"{name}-{start // together + 1}", classifiers[start : start + together])


def _measure(
    given: argparse.Namespace,
    stretch: Stretch,
    together: int,
    rosters: Sequence[tuple[str, Roster]],
    settings: GatewaySettings,
    before: TwoWayRecord,
) -> TwoWayRecord:
    record = before
    state, store = given.state.absolute(), BlobStore(settings.store_url)
    bank = Bank(state / f"bank-{given.seed}.jsonl")
    suite, folder = load_suite(SUITE), Folder(given.size)
    runs, bugs, claims = list[TwoWayRun](), list[TwoWayBugReport](), list[ConjunctionReport]()
    for kind, roster in rosters:
        answers = Answers(list(roster.classifiers), store, state / "answers")
        create = StressTestCreate(
            dataset=stretch.dataset_name,
            classifiers=roster.specs,
            preset="quick",
            max_edits_per_image=5,
            lance_r_edits_per_image=0,
            seed=given.seed,
        )
        planned = plan(create, stretch, folder, suite, settings)
        run = replay(create, folder, planned, bank, partial(make, settings=settings), answers.of)
        of_run = [each for one in roster.classifiers for each in _claims(one, roster.name, run, stretch)]
        claims += of_run
        bugs += [each for one in roster.classifiers for each in _bugs(one, run, stretch)]
        runs.append(_run_report(kind, roster, run, of_run))
        sys.stdout.write(f"{runs[-1]}\n")
        sys.stdout.flush()
        figures = _figures(given.seed, together, runs, bugs, claims)
        record = TwoWayRecord(figures=[*before.figures, figures])
        write_atomically(given.out, f"{record.model_dump_json(indent=2)}\n".encode())
    return record


def _claims(one: Contestant, roster: str, run: Replayed, stretch: Stretch) -> Iterator[ConjunctionReport]:
    for finding in proven(run.summary.findings, one.spec):
        conditions = named(finding.conjunction)
        drawn = generator(f"two-way {one.spec} {finding.number}")
        true = joint_truth(one, stretch.scenes, finding.object_class, conditions, drawn)
        assert finding.confirmed is not None
        yield ConjunctionReport(
            roster=roster,
            classifier=one.spec,
            object_class=finding.object_class,
            conditions=sorted(conditions),
            estimate=finding.confirmed.loss,
            drop_together=true.together,
            drop_alone=true.alone,
            is_true=true.is_true,
        )


def _bugs(one: Contestant, run: Replayed, stretch: Stretch) -> Iterator[TwoWayBugReport]:
    asked = tested(run.items, one.spec)
    said = {(each.object_class, named(each.conjunction)) for each in proven(run.summary.findings, one.spec)}
    for bug in one.bugs:
        if not isinstance(bug, TwoWayBug):
            continue
        measured = falls(one, stretch.scenes, bug.object_class, bug.conditions)
        together, alone = estimates(measured, generator(f"two-way {one.spec} {bug.id}"))
        key = bug.object_class, bug.conditions
        yield TwoWayBugReport(
            classifier=one.spec,
            bug=bug.id,
            object_class=bug.object_class,
            conditions=sorted(bug.conditions),
            drop_together=together,
            drop_alone=alone,
            is_planted=(together.estimate or 0.0) >= TOGETHER and (alone.estimate or 0.0) <= ALONE,
            met=meets(run.items, *key),
            proposed=key in asked,
            named=key in said,
        )


def _run_report(kind: str, roster: Roster, run: Replayed, claims: Sequence[ConjunctionReport]) -> TwoWayRun:
    return TwoWayRun(
        roster=roster.name,
        size=run.folder.size,
        classifiers=len(roster.classifiers),
        kind=kind,
        items=len(run.items),
        tested=sum(len(tested(run.items, spec)) for spec in roster.specs),
        proven=len(claims),
        false=sum(not each.is_true for each in claims),
    )


def _figures(
    seed: int,
    together: int,
    runs: Sequence[TwoWayRun],
    bugs: Sequence[TwoWayBugReport],
    claims: Sequence[ConjunctionReport],
) -> TwoWayFigures:
    planted = [bug for bug in bugs if bug.is_planted]
    met = [bug for bug in planted if bug.met]
    others = [run for run in runs if run.kind == "others"]
    false = {(each.roster, each.classifier) for each in claims if not each.is_true}
    without = {run.roster for run in others}
    return TwoWayFigures(
        seed=seed,
        together=together,
        planted=len(planted),
        taught=len(bugs),
        met=clustered_share(((bug.classifier, bug.met) for bug in planted), generator("two-way met")),
        named_of_met=clustered_share(
            ((bug.classifier, bug.named) for bug in met), generator("two-way named")
        ),
        proposed_of_met=clustered_share(
            ((bug.classifier, bug.proposed) for bug in met), generator("two-way proposed")
        ),
        precision=clustered_share(
            ((each.classifier, each.is_true) for each in claims), generator("two-way true")
        ),
        false_runs=share([run.false > 0 for run in others]),
        false_classifiers=proportion(
            len([each for each in false if each[0] in without]), sum(run.classifiers for run in others)
        ),
        bugs=list(bugs),
        conjunctions=list(claims),
        runs=list(runs),
    )
