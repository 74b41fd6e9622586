"""The pieces of a validation in order: truth, planted bugs, stress tests, the oracle's judgements."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter
from tqdm import tqdm

from counterpose import Client
from counterpose_core.blobs import cache_key
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_miniature.training.stage import write_atomically
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from evaluation.oracle import WEIGHTS as ORACLE_WEIGHTS
from evaluation.oracle import Oracle
from evaluation.paths import SUITE_WEIGHTS

from . import served_text_filter
from .changes import changes_of, rows_of
from .contestants import Contestant
from .detection import bug_reports
from .generation import Drawn, drawn_by, images_of, prompts_of
from .judging import SEEN, SeenById, seen_in
from .kept import kept, kept_array
from .labels import Labelled, read_labels
from .measures import Floats
from .order import (
    ABOUT,
    SOURCES,
    TESTED,
    Order,
    analysis_key,
    generator,
    newest_run,
    question_key,
    run_key,
    scenes_key,
    weights_below,
)
from .predictors import predicting
from .report import BugReport, FilterFigures
from .running import (
    DATASET,
    FINISHED,
    SUMMARY,
    Finished,
    collected,
    rest_others,
    start,
    take_up,
    watched,
)
from .serving import Service
from .sources import by_image, upload
from .truth import Images, Truth, rendered, true_class_table

CAPTIONS = 80
"""The number of a run's captions that the text filter is judged on."""

_REPORTS = TypeAdapter(list[BugReport])
_FILTER = TypeAdapter(FilterFigures)
_RUN_ID = TypeAdapter(str)


class Campaign:
    """One preset's validation; each piece is made when it is first needed, and kept."""

    def __init__(self, order: Order, entrants: Sequence[Contestant], service: Service) -> None:
        self.order, self.entrants, self._service = order, entrants, service
        self.scenes = order.scenes(entrants)
        self._keys = {seed: self._key(seed, scenes) for seed, scenes in self.scenes.items()}

    def _key(self, seed: int, scenes: Sequence[Scene]) -> str:
        if self.order.again:
            return newest_run(self.order, seed, scenes, self.entrants)
        return run_key(self.order, scenes, self.entrants)

    @property
    def all_scenes(self) -> list[Scene]:
        """The sources of all seeds, in order."""
        return [scene for scenes in self.scenes.values() for scene in scenes]

    @cached_property
    def truths(self) -> dict[str, Truth]:
        """Rendered truth of each classifier over all sources."""
        tables = [self._tables(scenes) for scenes in self.scenes.values()]
        return {
            one.spec: Truth(self.all_scenes, np.concatenate([table[one.spec] for table in tables]))
            for one in self.entrants
        }

    def _tables(self, scenes: Sequence[Scene]) -> dict[str, Floats]:
        folder = self.order.state / "truth" / scenes_key(scenes)
        paths = {one.spec: folder / f"{one.digest[:16]}.npy" for one in self.entrants}
        with self.timed("truth"):
            missing = any(not path.exists() for path in paths.values())
            images = rendered(scenes, folder / "renderings.npy") if missing else None
            return {
                one.spec: kept_array(paths[one.spec], partial(_table, one, scenes, images))
                for one in tqdm(self.entrants, desc="truth")
            }

    @cached_property
    def bugs(self) -> list[BugReport]:
        """Every bug that was taught, and whether renderings show it."""
        path = self._folder(self.order.seeds[0]) / f"bugs-{'-'.join(map(str, self.order.seeds))}.json"
        return kept(path, _REPORTS, lambda: bug_reports(self.entrants, self.truths, generator("bugs")))

    @cached_property
    def tested(self) -> dict[int, Finished]:
        """The stress test of each seed; which bugs count as planted is decided and stored first."""
        settled = self.bugs
        assert all(report.true_drop.n for report in settled)
        for seed, scenes in self.scenes.items():
            kept(self._folder(seed) / SOURCES, SEEN, partial(_described, scenes))
        return {
            seed: kept(self._folder(seed) / TESTED, FINISHED, partial(self._test, seed))
            for seed in self.order.seeds
        }

    def _test(self, seed: int) -> Finished:
        client = self._service.client()
        path = self._folder(seed) / "run.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        about = question_key(self.order, self.scenes[seed], self.entrants)
        write_atomically(path.with_name(ABOUT), about.encode())
        run_id = kept(path, _RUN_ID, partial(self._begin, client, seed))
        if self._service.is_ours:
            rest_others(client.stress_tests, run_id)
        return collected(watched(take_up(client.stress_tests, run_id)))

    def _begin(self, client: Client, seed: int) -> str:
        name = f"{DATASET}{scenes_key(self.scenes[seed])}"
        upload(client, name, self.scenes[seed])
        run = start(
            client,
            name,
            [one.spec for one in self.entrants],
            preset=self.order.preset,
            edits=self.order.edits,
            seed=seed,
            key=f"validity-{self._keys[seed]}",
        )
        return run.id

    @cached_property
    def summaries(self) -> dict[int, StressTestSummary]:
        """The gateway's summary of each finished run; fetched again when its code has changed."""
        name = f"summary-{analysis_key()}.json"
        return {
            seed: kept(self._folder(seed) / name, SUMMARY, partial(self._summary, tested))
            for seed, tested in self.tested.items()
        }

    def _summary(self, tested: Finished) -> StressTestSummary:
        with self.timed("summary"):
            return self._service.client().stress_tests.get(tested.run_id).summary()

    @cached_property
    def drawn(self) -> Drawn | None:
        """Each classifier's answers to images of class names; None where no editor can draw them."""
        index = {name: number for number, name in enumerate(by_image(self.all_scenes))}
        changes = changes_of([item for tested in self.tested.values() for item in tested.items], index)
        prompts = prompts_of(rows_of(changes, self.truths, least=self.order.least))
        editor = cache_key(weights=weights_below(SUITE_WEIGHTS / "editor"))[:16]
        folder = self.order.state / "class-names" / editor
        if not self._service.is_ours:
            return None
        with self.timed("class-name generation"):
            images = images_of(prompts, folder, self._service.draw)
        with self.timed("class names, classified"):
            return drawn_by(self.entrants, images, folder)

    @cached_property
    def seen(self) -> dict[int, SeenById]:
        """What the oracle sees in every generated image, by seed and item."""
        return {
            seed: kept(self._folder(seed) / f"seen-{_judge()}.json", SEEN, partial(self._look, tested))
            for seed, tested in self.tested.items()
        }

    @cached_property
    def seen_sources(self) -> SeenById:
        """What the oracle sees in the sources themselves, by the name of their image."""
        found: SeenById = {}
        for scenes in self.scenes.values():
            path = self.order.state / "truth" / scenes_key(scenes) / f"seen-{_judge()}.json"
            seen: SeenById = kept(path, SEEN, partial(_seen_rendered, scenes))
            found |= seen
        return found

    @cached_property
    def labelled(self) -> list[Labelled]:
        """The edited images that were labelled by eye, from any run."""
        return read_labels()

    @cached_property
    def seen_labelled(self) -> list[dict[str, str]]:
        """What the oracle sees in the images labelled by eye."""
        shown = [one.image for one in self.labelled]
        return Oracle.load().attributes(np.stack(shown)) if shown else []

    def _look(self, tested: Finished) -> SeenById:
        run = self._service.client().stress_tests.get(tested.run_id)
        with self.timed("oracle"):
            return seen_in(run.image, tested.items, Oracle.load().attributes)

    @cached_property
    def text_filter(self) -> FilterFigures:
        """The text filter against the grammar, on captions of the first seed's run."""
        seed, tested = next(iter(self.tested.items()))
        labelled = {
            item.item_group: (item.label, item.result.caption) for item in tested.items if item.result
        }
        captions = list(labelled.values())[:CAPTIONS]
        path = self._folder(seed) / "text-filter.json"
        with self.timed("text filter"):
            return kept(path, _FILTER, partial(_measured_filter, captions))

    @contextmanager
    def timed(self, piece: str) -> Iterator[None]:
        """Add the time spent inside to the piece's total over all attempts."""
        began = time.monotonic()
        yield
        known = self._seconds()
        known[piece] = known.get(piece, 0.0) + time.monotonic() - began
        self._clock.parent.mkdir(parents=True, exist_ok=True)
        self._clock.write_text(json.dumps(known), encoding="utf-8")

    @property
    def _clock(self) -> Path:
        return self._folder(self.order.seeds[0]) / "seconds.json"

    def _seconds(self) -> dict[str, float]:
        known: dict[str, float] = json.loads(self._clock.read_text()) if self._clock.exists() else {}
        return known

    def seconds(self) -> dict[str, float]:
        """The seconds of each piece."""
        return self._seconds() | {"stress tests": sum(one.wall_s for one in self.summaries.values())}

    def _folder(self, seed: int) -> Path:
        return self.order.state / "runs" / f"{self.order.preset}-{seed}-{self._keys[seed]}"


def _described(scenes: Sequence[Scene]) -> SeenById:
    return {name: scene.attributes() for name, scene in by_image(scenes).items()}


def _measured_filter(captions: Sequence[tuple[str, str]]) -> FilterFigures:
    return served_text_filter.measure(captions, SUITE_WEIGHTS, generator("text filter"))


def _judge() -> str:
    return sha256(ORACLE_WEIGHTS.read_bytes()).hexdigest()[:16]


def _seen_rendered(scenes: Sequence[Scene]) -> SeenById:
    images = by_image(scenes)
    seen = Oracle.load().attributes(np.stack([render(scene) for scene in images.values()]))
    return dict(zip(images, seen, strict=True))


def _table(one: Contestant, scenes: Sequence[Scene], images: Images | None) -> Floats:
    assert images is not None
    with predicting(one) as predict:
        return true_class_table(scenes, images, predict)
