"""Makes a validation's report from its pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import Insight
from counterpose_miniature.world.scene import Scene

from . import aims, edit_figures, oracle_error
from .agreement import beyond_reconstruction, comparison
from .baselines import Guess, drawn_means, random_word_means, type_means
from .changes import Change, Row, changes_of, rows_of
from .contestants import Contestant
from .detection import Trial, chances, detection
from .generation import Drawn
from .judging import Judgement, Seen, judged
from .labels import Labelled
from .measures import split_half
from .order import Order, generator
from .reconstructions import reconstruction
from .report import (
    BugReport,
    CorrectedFigures,
    FilterFigures,
    OracleAccuracy,
    PresetReport,
    Setting,
)
from .sources import by_image
from .truth import Truth


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The measurements, by seed where they belong to a run."""

    order: Order
    entrants: Sequence[Contestant]
    scenes: Mapping[int, Sequence[Scene]]
    truths: Mapping[str, Truth]
    bugs: Sequence[BugReport]
    runs: Mapping[int, str]
    items: Mapping[int, Sequence[Item]]
    insights: Mapping[int, Sequence[Insight]]
    seen: Mapping[int, Mapping[str, Seen]]
    seen_sources: Mapping[str, Seen]
    labelled: Sequence[Labelled]
    seen_labelled: Sequence[Seen]
    text_filter: FilterFigures
    drawn: Drawn | None
    seconds: Mapping[str, float]

    @property
    def all_scenes(self) -> list[Scene]:
        """The sources of all seeds, in the order of the truth."""
        return [scene for scenes in self.scenes.values() for scene in scenes]

    @property
    def all_items(self) -> list[Item]:
        """The items of all runs."""
        return [item for items in self.items.values() for item in items]

    @cached_property
    def by_image(self) -> dict[str, Scene]:
        """The sources by the name of their image, in the same order."""
        return by_image(self.all_scenes)

    def changes(self) -> dict[int, list[Change]]:
        """The changes that the edits of each seed's run asked for."""
        index = {name: number for number, name in enumerate(self.by_image)}
        return {seed: changes_of(items, index) for seed, items in self.items.items()}

    def judgements(self) -> dict[str, Judgement]:
        """The oracle's judgement of each image, by item."""
        seen = {key: one for found in self.seen.values() for key, one in found.items()}
        return judged(self.all_items, self.by_image, seen)


def report(pieces: Pieces) -> PresetReport:
    """Return all figures with their targets."""
    changes, judgements = pieces.changes(), pieces.judgements()
    every_change = [change for found in changes.values() for change in found]
    trials = [
        Trial(seed, _significant(pieces.insights[seed]), found, pieces.truths)
        for seed, found in changes.items()
    ]
    planted = chances(pieces.bugs, list(pieces.scenes))
    controls = [one.spec for one in pieces.entrants if one.is_control]
    detected, found = detection(planted, trials, controls, generator("detection"))
    rows = rows_of(every_change, pieces.truths, least=pieces.order.least)
    compared = comparison(rows, _guesses(rows, pieces), generator)
    edits = edit_figures.by_type(pieces.all_items, judgements, generator("edits"))
    rebuilt = reconstruction(pieces.all_items, list(pieces.truths), judgements, generator("reconstruction"))
    return PresetReport(
        setting=_setting(pieces, controls),
        aims=[
            *aims.of_detection(detected),
            *aims.of_agreement(compared),
            *aims.of_edits(edits),
            *aims.of_reconstruction(rebuilt),
        ],
        bugs=list(pieces.bugs),
        planted_bugs=[one.name for one in planted],
        planted_bugs_found=[one.name for one in found],
        detection=detected,
        cells=len(rows),
        agreement=compared,
        agreement_beyond_reconstruction=beyond_reconstruction(rows, generator("beyond reconstruction")),
        reliability_of_the_truth=split_half([row.true for row in rows], generator("reliability")),
        edits=edits,
        edits_corrected=_corrected(pieces, judgements),
        oracle=_oracle(pieces),
        edits_seen_and_withheld=edit_figures.by_novelty(
            pieces.all_items, judgements, pieces.by_image, generator("novelty")
        ),
        drops_seen_and_withheld=edit_figures.drops_apart(
            every_change, pieces.all_scenes, pieces.truths, generator("drops apart")
        ),
        text_filter=pieces.text_filter,
        image_gate=edit_figures.image_gate(judgements.values(), generator("gate")),
        selection=edit_figures.selection(
            pieces.all_items, every_change, pieces.truths, generator("selection")
        ),
        reconstruction=rebuilt,
    )


def _guesses(rows: Sequence[Row], pieces: Pieces) -> dict[str, Guess]:
    return {
        "edit-type-mean": type_means(rows),
        "lance-r": random_word_means(rows, pieces.all_items),
        "class-name-generation": drawn_means(rows, pieces.drawn),
    }


def _corrected(pieces: Pieces, judgements: Mapping[str, Judgement]) -> dict[str, CorrectedFigures] | None:
    if not pieces.labelled:
        return None
    rates = oracle_error.rates_of(pieces.labelled, pieces.seen_labelled)
    return oracle_error.corrected_figures(judgements.values(), rates, generator("corrected"))


def _oracle(pieces: Pieces) -> OracleAccuracy:
    seen = {key: one for found in pieces.seen.values() for key, one in found.items()}
    rebuilt = [item for item in pieces.all_items if item.kind == "reconstruction" and item.id in seen]
    sources = pieces.by_image
    by_eye = zip(pieces.seen_labelled, [one.seen for one in pieces.labelled], strict=True)
    return OracleAccuracy(
        renderings=oracle_error.accuracy(
            (pieces.seen_sources[name], scene.attributes()) for name, scene in sources.items()
        ),
        reconstructions=oracle_error.accuracy(
            (seen[item.id], sources[item.source_image].attributes()) for item in rebuilt
        ),
        edited=oracle_error.accuracy(by_eye) if pieces.labelled else None,
    )


def _significant(insights: Iterable[Insight]) -> list[Insight]:
    return [insight for insight in insights if insight.significant]


def _setting(pieces: Pieces, controls: Sequence[str]) -> Setting:
    order, scenes = pieces.order, pieces.all_scenes
    return Setting(
        seeds=list(order.seeds),
        sources=len(scenes),
        sources_by_class=dict(Counter(scene.object_class for scene in scenes)),
        edits_per_source=order.edits,
        habits=order.habits,
        preset=order.preset,
        classifiers=[one.spec for one in pieces.entrants],
        controls=list(controls),
        least_sources_of_a_cell=order.least,
        runs=list(pieces.runs.values()),
        seconds={piece: round(taken, 1) for piece, taken in pieces.seconds.items()},
    )
