"""Classifiers that failed on images of a benchmark: left out there, counted and told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpose._cli.shift_benchmark import prompts_text, shift_benchmark_text
from counterpose_core.contract.shift_benchmark_summary import (
    EffectSummary,
    ModelDrop,
    ShiftBenchmarkSummary,
    UnansweredImages,
)
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_gateway.methods.shift_benchmark.export import benchmark_records
from counterpose_gateway.methods.shift_benchmark.report.first_screen import model_cells
from counterpose_gateway.methods.shift_benchmark.report.plots import accuracy_lines
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from fakes.pages import text_of
from fakes.recorded_benchmarks import SNOW, Benchmark, recorded_config
from fakes.reported_benchmarks import read_image
from fakes.simulated_answers import World

N, REAL = 16, 10
WHY = "'tipsy' failed on this image: ValueError: no such colour"


def benchmark(**request: Any) -> Benchmark:
    made = Benchmark(recorded_config(n=N, **request))
    classes, models = len(made.config.classes), len(made.config.request.classifiers)
    for image_source in made.config.request.image_sources:
        world = World(shifts=2, classes=classes, models=models)
        made.image_source(image_source, world.values(np.random.default_rng(1), N))
    for index in range(classes):
        made.real(index, [0.1 + 0.01 * step for step in range(REAL)], [True, False, True][:models])
    return made


def condition(made: Benchmark, name: str, image_source: str = "token") -> list[int]:
    return [
        index
        for index, item in enumerate(made.items)
        if item.result and (item.result.shift, item.result.image_source) == (name, image_source)
    ]


def fail(made: Benchmark, places: list[int], model: str = "tipsy", why: str = WHY) -> None:
    for place in places:
        item = made.items[place]
        assert item.result is not None
        pairs = {name: pair for name, pair in item.result.predictions.items() if name != model}
        update = {"predictions": pairs, "unanswered": item.result.unanswered | {model: why}}
        result = item.result.model_copy(update=update)
        made.items[place] = item.model_copy(update={"result": result})


def summary(made: Benchmark) -> ShiftBenchmarkSummary:
    # As it is stored and sent.
    return ShiftBenchmarkSummary.model_validate_json(summarize(made.run, made.columns).model_dump_json())


def effect(found: ShiftBenchmarkSummary, shift: str = SNOW.name) -> EffectSummary:
    told = found.image_sources["token"].shifts[shift].effect
    assert told is not None
    return told


def drop(found: ShiftBenchmarkSummary, model: str, shift: str = SNOW.name) -> ModelDrop:
    return effect(found, shift).models[model]


def asked(made: Benchmark) -> int:
    return sum(item.state == "done" for item in made.items)


@pytest.fixture
def some() -> Benchmark:
    """A benchmark whose last classifier failed on three images: two under snow, one of them real."""
    made = benchmark()
    fail(made, condition(made, SNOW.name)[3:5])
    fail(made, condition(made, "base", "real")[:1], why="'tipsy' failed on this image: it has NaN")
    return made


def test_a_classifiers_failures_are_counted_where_they_are(some: Benchmark) -> None:
    found = summary(some)
    token = found.image_sources["token"]
    assert token.shifts[SNOW.name].unanswered == {"tipsy": 2}
    assert token.base.unanswered == token.shifts["pencil sketch"].unanswered == {}
    assert found.real.unanswered == {"tipsy": 1}
    assert token.shifts[SNOW.name].counts.kept == 2 * N
    assert found.failed_codes == {}


def test_a_classifiers_figures_leave_its_failures_out(some: Benchmark) -> None:
    found = summary(some)
    assert [drop(found, name).shifted.n for name in ("steady", "leaning", "tipsy")] == [32, 32, 30]
    assert drop(found, "tipsy").base.n == 2 * N
    plate = found.image_sources["token"].classes["plate"][SNOW.name].models
    assert (plate["tipsy"].n, plate["steady"].n) == (N - 2, N)
    assert (found.real.models["tipsy"].n, found.real.models["leaning"].n) == (2 * REAL - 1, 2 * REAL)
    assert (found.real.models["tipsy"].estimate, found.real.models["leaning"].estimate) == (1.0, 0.0)
    # Figures over models use the images that all of them answered.
    assert effect(found).impact.n == 2 * N - 2
    assert effect(found, "pencil sketch").impact.n == 2 * N
    gap = found.image_sources["token"].shifts[SNOW.name].gap
    assert gap is not None
    assert gap.gap.n == 2 * REAL - 1


def test_the_answer_of_an_image_counts_once_for_the_classifier_that_gave_it() -> None:
    """Two wrong answers are no answers: the accuracy is that of the other images."""
    made = benchmark()
    places = condition(made, SNOW.name)
    wrong = [
        place
        for place in places
        if (result := made.items[place].result) and not result.predictions["tipsy"].right
    ][:2]
    before = summary(made).image_sources["token"].classes["plate"][SNOW.name].models["tipsy"]
    right = round((before.estimate or 0.0) * before.n)
    inside = sum(made.items[place].label == "plate" for place in wrong)
    fail(made, wrong)
    after = summary(made).image_sources["token"].classes["plate"][SNOW.name].models["tipsy"]
    assert inside
    assert after.n == N - inside
    assert after.estimate == pytest.approx(right / (N - inside))


def test_failures_are_told_in_one_sentence_with_the_first_reason(some: Benchmark) -> None:
    found = summary(some)
    (told,) = found.unanswered
    assert (told.classifier, told.images, told.of, told.state) == ("tipsy", 3, asked(some), None)
    sentence = f"tipsy failed on 3 of {asked(some)} images; they are left out for it (first failure: {WHY})"
    assert str(told) == sentence
    assert sentence in str(found)
    assert sentence in shift_benchmark_text(found)
    assert sentence in prompts_text(found)
    html = render(found, some.run, some.items, read_image)
    assert sentence in text_of(html)
    assert "Kept, but no answer" in text_of(html)
    assert "tipsy: 2" in text_of(html)


def test_a_benchmark_without_failures_tells_of_none() -> None:
    made = benchmark()
    found = summary(made)
    assert found.unanswered == []
    assert all(model.compared and model.classes is None for model in effect(found).models.values())
    html = render(found, made.run, made.items, read_image)
    assert "no answer" not in html
    assert 'id="unanswered"' not in html


def test_a_classifier_that_answered_no_image_cannot_be_told() -> None:
    made = benchmark()
    before = summary(made)
    fail(made, list(range(len(made.items))))
    found = summary(made)
    (told,) = found.unanswered
    assert (told.images, told.state) == (asked(made), "cannot-tell")
    assert str(told).startswith(f"tipsy failed on {told.of} of {told.of} images; can't tell what a shift")
    assert list(effect(found).models) == ["steady", "leaning"]
    assert effect(found).impact.n == effect(before).impact.n
    assert drop(found, "steady").shifted == drop(before, "steady").shifted
    assert found.real.models["tipsy"].n == 0
    assert effect(found).slope.refused == "a slope takes 3 models, not 2"
    assert set(model_cells(found)["tipsy"].values()) == {None}
    html = render(found, made.run, made.items, read_image)
    assert '<span class="badge cannot-tell">– can\'t tell</span> tipsy failed on' in html.replace(
        "&#39;", "'"
    )


def test_classifiers_without_answers_to_compare_leave_a_report_without_a_verdict() -> None:
    made = benchmark(classifiers=["steady", "leaning"])
    fail(made, [*condition(made, SNOW.name), *condition(made, "pencil sketch")], "steady")
    fail(made, condition(made, "base"), "leaning")
    found = summary(made)
    assert all(shift.effect is None for shift in found.image_sources["token"].shifts.values())
    assert {told.classifier: told.state for told in found.unanswered} == dict.fromkeys(
        ["leaning", "steady"], "cannot-tell"
    )
    text = text_of(render(found, made.run, made.items, read_image))
    assert "No shift could be judged: no class has 5 kept and answered images" in text


def test_a_classifier_that_fails_often_is_shown_beside_the_compared_ones() -> None:
    made = benchmark()
    fail(made, condition(made, SNOW.name)[::3])
    found = summary(made)
    assert not drop(found, "tipsy").compared
    assert effect(found).n_compared == 2
    assert effect(found).impact.n == 2 * N
    assert model_cells(found)["tipsy"][SNOW.name] is not None
    snow = accuracy_lines(found.image_sources["token"], {})[0]
    assert len(snow.linear.marks) == 2
    assert "averaged over 3 models" not in text_of(render(found, made.run, made.items, read_image))


def test_prompts_are_compared_on_the_seeds_that_the_classifier_answered() -> None:
    made = benchmark(classes=("plate",), image_sources=["token", "class-name"])
    fail(made, condition(made, SNOW.name)[:2])
    fail(made, condition(made, "base")[1:4])
    rows = {(row.model, row.image_source, row.condition): row for row in summary(made).prompts}
    failed, answered = rows["tipsy", "token", SNOW.name], rows["steady", "token", SNOW.name]
    assert (failed.accuracy.n, answered.accuracy.n) == (N - 2, N)
    assert failed.drop is not None
    assert failed.drop.n == N - 4
    by_name = rows["tipsy", "class-name", SNOW.name].beside_token
    assert by_name is not None
    assert by_name.n == N - 2
    fail(made, list(range(len(made.items))))
    gone = {(row.model, row.condition): row.accuracy for row in summary(made).prompts}
    assert (gone["tipsy", "base"].estimate, gone["tipsy", "base"].n) == (None, 0)


def test_classifiers_are_listed_by_their_failures() -> None:
    made = benchmark()
    fail(made, condition(made, SNOW.name)[:1], "steady", "down")
    fail(made, condition(made, SNOW.name)[1:4])
    assert [(told.classifier, told.images) for told in summary(made).unanswered] == [
        ("tipsy", 3),
        ("steady", 1),
    ]


def test_a_missing_answer_without_a_reason_is_counted() -> None:
    made = benchmark()
    fail(made, condition(made, SNOW.name)[:1])
    place = condition(made, SNOW.name)[0]
    item = made.items[place]
    assert item.result is not None
    nothing = item.result.model_copy(update={"unanswered": {}})
    made.items[place] = item.model_copy(update={"result": nothing})
    (told,) = summary(made).unanswered
    assert told == UnansweredImages(
        classifier="tipsy", images=1, of=asked(made), detail="no reason was recorded"
    )


def test_an_exported_image_has_no_score_of_a_classifier_that_failed(some: Benchmark) -> None:
    items: list[ImageItem] = []
    for item in some.items:
        assert item.result is not None
        made = {"models": {"editor": "sd@1"}, "prompt": "a photo", "seed": 1}
        items.append(item.model_copy(update={"result": item.result.model_copy(update=made)}))
    place = condition(some, SNOW.name)[3]
    (failed, answered) = benchmark_records(summary(some), [items[place], items[place - 1]])
    assert "truth tipsy" not in failed.scores
    assert set(answered.scores) - set(failed.scores) == {"truth tipsy"}
