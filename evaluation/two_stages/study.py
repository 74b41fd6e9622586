"""The study: a roster on a folder, in one or in two stages, replayed and compared with rendered truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import Suite
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.settings import GatewaySettings
from counterpose_miniature.world.scene import Scene
from evaluation.oracle import Oracle
from evaluation.two_way.conditions import Conditions, JointTruth
from evaluation.two_way.truth import joint_truth
from evaluation.validity.contestants import Contestant
from evaluation.validity.detection import STRONG, Chance, bug_reports, chances
from evaluation.validity.judging import Seen
from evaluation.validity.kept import kept_array
from evaluation.validity.matching import Told
from evaluation.validity.measures import Floats
from evaluation.validity.order import generator, scenes_key
from evaluation.validity.predictors import predicting
from evaluation.validity.report import BugReport
from evaluation.validity.sources import by_image
from evaluation.validity.truth import Truth, rendered, true_class_table

from .answers import Answers
from .bank import Bank
from .claims import changes_by_item, claim_reports, claims_of, stages_of
from .fates import Story, stacked
from .figures import Counted
from .replay import Make, Replayed, plan, replay
from .report import ChanceReport, ClaimReport, ControlReport, RunReport
from .rosters import Roster
from .stretch import Folder, Stretch


@dataclass(frozen=True)
class Study:
    """All that the runs share."""

    stretch: Stretch
    rosters: Sequence[Roster]
    suite: Suite
    settings: GatewaySettings
    bank: Bank
    make: Make
    store: Store
    state: Path
    preset: str
    edits: int
    _seen: dict[str, Seen] = field(default_factory=dict)

    @cached_property
    def entrants(self) -> dict[str, Contestant]:
        """Every classifier of any roster, by name."""
        return {one.spec: one for roster in self.rosters for one in roster.classifiers}

    @cached_property
    def controls(self) -> list[str]:
        """The classifiers that were taught no bug, the suite's own included."""
        return [spec for spec, one in self.entrants.items() if not one.bugs]

    @cached_property
    def answers(self) -> Answers:
        """The answers of every classifier."""
        return Answers(list(self.entrants.values()), self.store, self.state / "answers")

    @cached_property
    def scenes(self) -> dict[str, Scene]:
        """The scenes by the name of their image, in their order."""
        return by_image(self.stretch.scenes)

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each scene by the name of its image."""
        return {image: number for number, image in enumerate(self.scenes)}

    @cached_property
    def truths(self) -> dict[str, Truth]:
        """Rendered truth of each classifier over the stretch."""
        scenes = self.stretch.scenes
        folder = self.state / "truth" / scenes_key(scenes)
        return {
            spec: Truth(
                scenes, kept_array(folder / f"{one.digest[:16]}.npy", partial(_table, one, scenes, folder))
            )
            for spec, one in self.entrants.items()
        }

    @cached_property
    def bugs(self) -> list[BugReport]:
        """Every bug that was taught, and its true drop over the stretch."""
        return bug_reports(list(self.entrants.values()), self.truths, generator("bugs"))

    @cached_property
    def planted(self) -> list[Chance]:
        """The bugs that renderings show."""
        return chances(self.bugs, [self.stretch.seed])

    def run(self, roster: Roster, folder: Folder, *, confirm: bool) -> Counted:
        """Replay one run, and compare what it says with the truth."""
        create = self._create(roster, confirm=confirm)
        planned = plan(create, self.stretch, folder, self.suite, self.settings)
        replayed = replay(create, folder, planned, self.bank, self.make, self.answers.of)
        return self._compared(roster, replayed)

    def _create(self, roster: Roster, *, confirm: bool) -> StressTestCreate:
        return StressTestCreate(
            dataset=self.stretch.dataset_name,
            classifiers=roster.specs,
            preset=self.preset,
            max_edits_per_image=self.edits,
            # The baseline enters no finding; without it a run of either kind has seven items an image.
            lance_r_edits_per_image=0,
            confirm=confirm,
            seed=self.stretch.seed,
        )

    def _compared(self, roster: Roster, replayed: Replayed) -> Counted:
        changes = changes_by_item(replayed, self.index)
        claims = claims_of(replayed, changes)
        # Its own draws: a run that is added changes no other's figures.
        drawn = generator(f"claims {roster.name} {replayed.folder.name} {stages_of(replayed)}")
        reports = list(
            claim_reports(
                replayed, roster.name, claims, self.truths, self._joint, self.planted, self.controls, drawn
            )
        )
        story = Story(replayed, claims, changes, self.scenes, self._look)
        strong = [one for one in self.planted if one.drop >= STRONG and one.classifier in roster.specs]
        where = _where(roster, replayed)
        return Counted(
            [_run_report(replayed, reports, where)],
            reports,
            [
                ChanceReport.model_validate(
                    where
                    | {
                        "classifier": one.classifier,
                        "bug": one.bug.id,
                        "true_drop": one.drop,
                        "fate": story.fate(one),
                    }
                )
                for one in strong
            ],
            [_control_report(spec, reports, where) for spec in roster.specs if spec in self.controls],
        )

    def _joint(self, said: Told, conditions: Conditions) -> JointTruth:
        one, scenes = self.entrants[said.classifier], self.stretch.scenes
        # A name that says all: the draws of other findings stay as they are.
        drawn = generator(f"joint {one.spec} {said.object_class} {sorted(conditions)}")
        return joint_truth(one, scenes, said.object_class, conditions, drawn)

    def _look(self, images: Sequence[str]) -> list[Seen]:
        missing = [image for image in dict.fromkeys(images) if image not in self._seen]
        pixels = stacked([decode_image(self.store.get(image)) for image in missing])
        self._seen.update(zip(missing, Oracle.load().attributes(pixels), strict=True))
        return [self._seen[image] for image in images]


def _where(roster: Roster, replayed: Replayed) -> dict[str, object]:
    folder = replayed.folder
    return {
        "roster": roster.name,
        "size": folder.size,
        "part": folder.part,
        "stages": stages_of(replayed),
    }


def _run_report(replayed: Replayed, claims: Sequence[ClaimReport], where: Mapping[str, object]) -> RunReport:
    confirmation, states = replayed.summary.confirmation, [claim.state for claim in claims]
    return RunReport.model_validate(
        dict(where)
        | {
            "reason": None if confirmation is None else confirmation.reason,
            "items": len(replayed.items),
            "made": replayed.images,
            "evaluations": replayed.summary.cost.unet_evaluations,
            "service_seconds": round(replayed.service_seconds, 1),
            "hypotheses": 0 if confirmation is None else confirmation.hypotheses,
            "confirmed": states.count("breaks"),
            "suspected": states.count("suspected"),
        }
    )


def _control_report(spec: str, claims: Sequence[ClaimReport], where: Mapping[str, object]) -> ControlReport:
    broken = [one for one in claims if one.classifier == spec and one.state == "breaks"]
    false = sum(one.verdict == "false-alarm" for one in broken)
    counts = {"classifier": spec, "breaks": len(broken), "false_alarms": false}
    return ControlReport.model_validate(dict(where) | counts)


def _table(one: Contestant, scenes: Sequence[Scene], folder: Path) -> Floats:
    images = rendered(scenes, folder / "renderings.npy")
    with predicting(one) as predict:
        return true_class_table(scenes, images, predict)
