"""``make validate-served``: a stress test whose editor is a server that is known to lie, and how.

    python -m evaluation.served_editor [--sources 400] [--roster suite|all] [--state FOLDER] [--out FILE]

The sources are those of the preset `quick` in `evaluation/results/validity.json`. The product's stress test
runs on an honest server and, refusing every fault, on a faulty one. Runs are kept source by source, and one
that was ended goes on; after a change of the plan or the product, give another folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import decode_image
from counterpose_core.preservation.limits import Limits
from counterpose_core.preservation.scores import measure
from counterpose_miniature.training.bugs import read_bugs
from counterpose_miniature.training.stage import use_threads, write_atomically
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from evaluation.paths import RESULTS, STATE
from evaluation.preservation.trials import LARGEST_REGION
from evaluation.served_editor.figures import (
    EDIT,
    Judged,
    Pair,
    aims,
    bug_figures,
    control_figures,
    found_figures,
    gate_figures,
    outcome_figures,
    pairs_of,
    region_figures,
)
from evaluation.served_editor.oracle import Question
from evaluation.served_editor.plan import FAULTS, OVER_EDITED, PLANS, SEED, WITH_REGION
from evaluation.served_editor.running import Done, Request, arms, finished
from evaluation.validity import roster
from evaluation.validity.changes import changes_of
from evaluation.validity.contestants import BUG_FILES, Contestant, all_bugs
from evaluation.validity.detection import Trial, bug_reports
from evaluation.validity.kept import kept, kept_array
from evaluation.validity.order import Order, contestants, generator
from evaluation.validity.predictors import predicting
from evaluation.validity.report import PresetReport, Validity
from evaluation.validity.sources import by_image, distribution_of, scenes_of
from evaluation.validity.truth import Truth, rendered, true_class_table

OUT, VALIDITY = RESULTS / "served-editor.json", RESULTS / "validity.json"
PRESET, STRETCH, EDITS_OF_A_SOURCE = "quick", 3, 10
"""What is compared with, and its stretch of sources and planned edits."""
REGIONED = ("recolour", "leak", "over-edit")
OBEYED = 400
"""Faultless edits that are measured with the exact region, too."""
_JUDGED = TypeAdapter(list[Judged])


def scenes(count: int) -> list[Scene]:
    """The first of the sources of `validity.json`: they resemble what all its classifiers were trained on."""
    files = [bug for file in sorted(BUG_FILES.glob("*.json")) for bug in read_bugs(file)]
    bugs = [*all_bugs(roster.suite_classifiers()), *files]
    return scenes_of(STRETCH, count, distribution_of("as-trained", bugs))


@dataclass(frozen=True)
class Study:
    """The sources, the classifiers, and where finished pieces lie."""

    scenes: Sequence[Scene]
    entrants: Sequence[Contestant]
    state: Path

    def truths(self) -> dict[str, Truth]:
        """Rendered truth of each classifier."""
        folder = self.state / "truth"
        images = rendered(self.scenes, folder / "renderings.npy")
        return {one.spec: Truth(self.scenes, self._table(one, images, folder)) for one in self.entrants}

    def _table(self, one: Contestant, images: Any, folder: Path) -> Any:
        def predicted() -> Any:
            with predicting(one) as predict:
                return true_class_table(self.scenes, images, predict)

        return kept_array(folder / f"{one.digest[:16]}.npy", predicted)

    def judged(self, pairs: Sequence[Pair], name: str) -> list[Judged]:
        """What the limits say of edits by the exact region; nothing where no part of the image is to stay."""
        return kept(self.state / name / "judged.json", _JUDGED, partial(self._judged, pairs))

    def _judged(self, pairs: Sequence[Pair]) -> list[Judged]:
        store, known = BlobStore(str(self.state / "store")), by_image(self.scenes)
        edits = [pair for pair in pairs if pair.item.kind == EDIT and pair.answer.seen]
        chosen = [pair for pair in edits if pair.answer.group in REGIONED]
        chosen += [pair for pair in edits if pair.answer.group == "obeys"][:OBEYED]
        told = list[Judged]()
        for pair in chosen:
            question = Question(known[pair.answer.image], pair.answer.changes)
            source = render(question.before)
            region = question.region(source, render(question.after))
            assert pair.item.result is not None
            names: list[str] | None = None
            if region.mean() <= LARGEST_REGION:
                edited = decode_image(store.get(pair.item.result.image))
                names = list(Limits().faults(measure(source, edited, region=region)))
            told.append((pair.answer.group, pair.answer.fault, names))
        return told

    def trial(self, done: Done, truths: dict[str, Truth]) -> Trial:
        """The run's significant insights, beside the truth on its sources."""
        index = {name: number for number, name in enumerate(by_image(self.scenes))}
        significant = [one for one in done.summary.insights if one.significant]
        return Trial(STRETCH, significant, changes_of(done.items, index), truths)

    def report(self, runs: dict[str, Done]) -> dict[str, Any]:
        """Every figure."""
        truths = self.truths()
        bugs = bug_reports(self.entrants, truths, generator("bugs"))
        quick = _quick()
        figures: dict[str, Any] = {}
        for name, done in runs.items():
            pairs = list(pairs_of(done.items, done.answers))
            figures[name] = {
                "shares of the plan": dict(PLANS[name].shares),
                "outcomes": outcome_figures(done.items, done.answers),
                "bugs": bug_figures(bugs, self.trial(done, truths), quick, generator("detection")),
            }
            if PLANS[name].shares:
                figures[name] |= {
                    "gate": gate_figures(pairs),
                    "planted in edits": found_figures(pairs),
                    "planted in controls": control_figures(pairs),
                    "by the exact region": region_figures(self.judged(pairs, name)),
                }
        return {
            "aims": aims(figures),
            "setting": {
                "stretch of sources": STRETCH,
                "sources": len(self.scenes),
                "planned edits of a source": EDITS_OF_A_SOURCE,
                "classifiers": [one.spec for one in self.entrants],
                "seed of the plan": SEED,
                "faults": {group: list(faults) for group, faults in FAULTS.items()},
                "over-edited": list(OVER_EDITED),
            },
            **figures,
        }


def _quick() -> PresetReport:
    """The preset's figures, of all the sources of which these are the first of each class."""
    return Validity.model_validate_json(VALIDITY.read_bytes()).presets[PRESET]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, measure and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", type=int, default=400, help="images, spread evenly over the classes")
    parser.add_argument(
        "--roster", choices=("suite", "all"), default="suite", help="all trains those of `make validate`, too"
    )
    parser.add_argument("--servers", default=",".join(PLANS), help="the faulty one comes first")
    parser.add_argument("--state", type=Path, default=STATE / "served-editor", help="folder of what is done")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    use_threads(1)
    state = given.state.absolute()
    suite = [*roster.suite_classifiers(), *roster.zero_shot_classifiers()]
    entrants = suite if given.roster == "suite" else contestants(Order(state=state))
    study = Study(scenes(given.sources), entrants, state / f"{given.roster}-{given.sources}")
    models = None if given.roster == "suite" else Order(state=state).models
    specs = [one.spec for one in entrants]
    asked = Request(study.scenes, specs, EDITS_OF_A_SOURCE, STRETCH, models)
    chosen, known = given.servers.split(","), arms(PLANS)
    runs = {name: finished(known[name], asked, study.state) for name in chosen}
    made = study.report(runs)
    if given.out.exists() and (beside := json.loads(given.out.read_bytes()).get(WITH_REGION)):
        made[WITH_REGION] = beside
    text = json.dumps(made, indent=1, ensure_ascii=False)
    write_atomically(given.out, f"{text}\n".encode())


if __name__ == "__main__":
    main()
