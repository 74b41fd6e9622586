"""The seeds of figures: the names under which summaries draw their random numbers, pinned by value.

A pin changes only in a commit that says which figures change and why: under another name, an interval or a
verdict that is close would come out otherwise. New figures may be added without a pin.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from counterpose_core.contract.features import FeatureVector, WordFeatures
from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_gateway.methods.gate import errors
from counterpose_gateway.methods.shift_benchmark import summary as benchmarks
from counterpose_gateway.methods.stress_test.summary import image_quality, insights, summary, suspicion
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.thresholds import JudgingAgain
from counterpose_gateway.steps import estimator
from fakes.confirmed_runs import finished_run
from fakes.recorded_benchmarks import Benchmark, recorded_config
from fakes.recorder import recorded_run
from fakes.records import recorded
from fakes.results import Ledgered, fake_config, prediction
from fakes.runs import stress_test_request
from fakes.varied_benchmarks import folder, varied_benchmark

PINS = Path(__file__).parent / "figure_seeds.json"
STEADY, SHAKEN = {"leaning": 0.9}, {"leaning": 0.2}
CHOSEN = [{"removed": "grass", "added": "snow"}]


GATE: Any = SimpleNamespace(
    request=SimpleNamespace(seed=3, tolerance=0.05, classifiers=["candidate"]),
    incumbent="incumbent",
    regression_set=SimpleNamespace(changes={"background": 12}),
)


def _pairs() -> Iterator[Any]:
    for number in range(12):
        right, wrong = prediction(0.9), prediction(0.1)
        result = SimpleNamespace(
            original_predictions={"candidate": right, "incumbent": right},
            predictions={"candidate": wrong, "incumbent": right},
        )
        told = SimpleNamespace(image="an edit", change="background", unit=f"source-{number}")
        yield SimpleNamespace(
            instruction=told, result=result, source_image=f"image-{number}", label="sled", state="done"
        )


class Noted:
    """Estimators whose figures are noted, each with the seed of its generator."""

    def __init__(self) -> None:
        self.seeds: dict[str, int] = {}

    def of(self, call: Callable[[], object]) -> dict[str, int]:
        """The figures of a call."""
        drawing, generator = np.random.default_rng, estimator.Estimator.generator

        def noted(each: estimator.Estimator, figure: str) -> np.random.Generator:
            def note(seed: int) -> np.random.Generator:
                self.seeds[figure] = seed
                return drawing(seed)

            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(np.random, "default_rng", note)
                return generator(each, figure)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimator.Estimator, "generator", noted)
            call()
        return self.seeds


def stress_test() -> None:
    """One stage with controls, baseline, a chosen edit, a class, and sources that are not independent."""
    ledgered = Ledgered()
    ledgered.stress([f"source-{number}" for number in range(8)], {"background": SHAKEN, "domain": STEADY})
    for number in range(8):
        ledgered.add(f"source-{number}", "intervention", slot=0, before=STEADY, after=SHAKEN)
        ledgered.add(f"source-{number}", "lance-r", before=STEADY, after=SHAKEN)
    request = stress_test_request(
        classifiers=["leaning"], interventions=CHOSEN, max_edits_per_image=2, lance_r_edits_per_image=1,
        edit_types=["background", "domain"], confirm=False,
    )  # fmt: skip
    alike = Grouping(groups={"source-0": "pair", "source-1": "pair"}, alike=2)
    config = fake_config().model_copy(update={"request": request, "grouping": alike})
    summarize(recorded_run(config, ledgered.items), ledgered.items)


def realism() -> None:
    """Features and likelihoods, more than are measured."""
    items = recorded(30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_quality, "MOST_IMAGES", 20)
        summarize(recorded_run(fake_config(classifiers=["leaning"]), items), items)


def clusters() -> None:
    """Changes of words with features: clusters of them are tested as insights."""
    items: list[Item] = []
    ledgered, draws = Ledgered(), np.random.default_rng(5)
    for number in range(30):
        source = f"source-{number}"
        items += [ledgered.add(source, "reconstruction"), ledgered.add(source, "placebo")]
        for axis, after in enumerate(({"leaning": 0.2}, {"leaning": 0.9})):
            made = ledgered.add(source, edit_type="background", before=STEADY, after=after)
            vector = np.eye(4)[axis] + draws.normal(0.0, 0.05, 4)
            word = WordSpan(words=[f"word{axis}{number % 7}"], start=9)
            features = WordFeatures(added=FeatureVector.of((vector / np.linalg.norm(vector)).tolist()))
            assert made.result is not None
            told = {"removed": [], "added": [word], "word_features": features, "models": {"clip": "clip@1"}}
            items.append(made.model_copy(update={"result": made.result.model_copy(update=told)}))
    summarize(recorded_run(fake_config(classifiers=["leaning"], edit_types=["background"]), items), items)


def findings() -> None:
    """Two stages: what the screen suspects, and what the fresh images prove."""
    made = asyncio.run(finished_run(classifiers=["leaning"], per_class=20))
    made.summary()
    made.summary(state="in_progress")


def judged_again() -> None:
    """Other thresholds."""
    JudgingAgain(fake_config(), Thresholds()).told()


def benchmark() -> None:
    """Token beside class name, and other images."""
    made: Benchmark = varied_benchmark(0, ("token", "class-name", "retrieval", "scraped", "photographs"))
    benchmarks.summarize(made.run, made.columns, [], folder=folder())


def prompts() -> None:
    """The prompts of a benchmark's only class."""
    made = Benchmark(recorded_config(classes=("plate",), models=("leaning",)))
    made.image_source("token", np.ones((3, 1, 8, 1), dtype=np.bool_))
    made.real(0, [0.1] * 5, [True])
    benchmarks.summarize(made.run, made.columns)


def gate() -> None:
    """A candidate under one change, and on the sources."""
    errors.judge(GATE, list(_pairs()), complete=True)


def rare() -> None:
    """Figures that few runs have: images outside the suite, changes that are alike, a suspicion."""
    figures, ones = LanceEstimator(3), np.ones(4)
    known = SimpleNamespace(screened=ones > 0, outside=np.arange(4), unit=np.arange(4))
    summary._suite_fit(cast("Any", known), fake_config(), figures)
    pattern = SimpleNamespace(
        object_class="sled", edit_type="background", removed="grass", added="snow", changes=3
    )
    figures.generator(insights._figure("leaning", cast("Any", SimpleNamespace(pattern=pattern))))
    seen = SimpleNamespace(n_sources=4, loss=0.5)
    group = SimpleNamespace(
        classifier="leaning", change=pattern, seen=seen, units=np.arange(4), losses=ones,
        falls=(np.arange(4), ones), one_per_unit=list,
    )  # fmt: skip
    suspicion.is_suspect(cast("Any", group), figures)


SITES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (stress_test, realism, clusters, findings, judged_again, benchmark, prompts, gate, rare)
}


def noted(name: str) -> dict[str, int]:
    """The figures of a summary."""
    return Noted().of(SITES[name])


@pytest.mark.parametrize("name", SITES)
def test_a_summary_draws_its_figures_from_the_seeds_on_record(name: str) -> None:
    pinned: dict[str, int] = json.loads(PINS.read_text("utf-8"))[name]
    found = noted(name)
    assert {figure: found.get(figure) for figure in pinned} == pinned
