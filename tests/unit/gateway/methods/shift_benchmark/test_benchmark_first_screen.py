"""The first screen of a benchmark: its headline, the pairs of its hardest shift, bars and models."""

from __future__ import annotations

from functools import cache

import pytest

from counterpose_core.contract.shift_benchmark_summary import (
    EffectSummary,
    ShiftBenchmarkSummary,
    ShiftSummary,
)
from counterpose_core.types import Estimate
from counterpose_gateway.methods.shift_benchmark.image_source_summary import state_of
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.shift_benchmark.report.first_screen import (
    SHOWN_PAIRS,
    Grid,
    bars,
    grids,
    hardest_shift,
    headline,
    model_cells,
    note_of,
    strip,
)
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.reports.images import Album
from fakes.benchmark_answers import a_benchmark_summary
from fakes.pages import text_of
from fakes.reported_benchmarks import MODELS, read_image, reported_benchmark, reported_summary


def judged(shift: ShiftSummary) -> ShiftSummary:
    """The shift with the verdict that its figures have."""
    return shift.model_copy(update={"state": state_of(shift.effect, shift.confounding)})


def changed(**effects: EffectSummary | None) -> ShiftBenchmarkSummary:
    """The reported benchmark with other effects of some shifts, named with an underscore for a space."""
    summary = reported_summary()
    name, source = next(iter(summary.image_sources.items()))
    shifts = {
        shift: judged(found.model_copy(update={"effect": effects[key]}))
        if (key := shift.replace(" ", "_")) in effects
        else found
        for shift, found in source.shifts.items()
    }
    return summary.model_copy(update={"image_sources": {name: source.model_copy(update={"shifts": shifts})}})


def told_apart(summary: ShiftBenchmarkSummary) -> ShiftBenchmarkSummary:
    """The same, of a generator that costs less than every shift."""
    (name, source), *_ = summary.image_sources.items()
    known = {"confounding": "not-confounded", "confounded": False}
    shifts = {shift: judged(found.model_copy(update=known)) for shift, found in source.shifts.items()}
    return summary.model_copy(update={"image_sources": {name: source.model_copy(update={"shifts": shifts})}})


def effect_of(shift: str) -> EffectSummary:
    source = next(iter(reported_summary().image_sources.values()))
    effect = source.shifts[shift].effect
    assert effect is not None
    return effect


@cache
def made_grids() -> tuple[Grid, ...]:
    made = reported_benchmark()
    return tuple(grids(reported_summary(), made.items, Album(read_image), run="run"))


def test_the_headline_counts_the_models_that_lose_most_on_the_hardest_shift() -> None:
    assert hardest_shift(reported_summary()) == "in the snow"
    told = headline(told_apart(reported_summary()))
    assert told == f"All {len(MODELS)} models lose most on “in the snow”: 39 points of accuracy."


def test_a_loss_that_may_be_the_generators_is_only_suspected() -> None:
    assert headline(reported_summary()) == (
        "Suspected: “in the snow” costs 39 points of accuracy, but the generator alone may cost as much."
    )


def test_a_shift_that_breaks_comes_before_a_larger_one_that_is_suspected() -> None:
    summary = reported_summary()
    name, source = next(iter(summary.image_sources.items()))
    night = told_apart(summary).image_sources[name].shifts["at night"]
    effect = effect_of("at night").model_copy(update={"p_adjusted": 0.01})
    sure = judged(night.model_copy(update={"effect": effect}))
    shifts = {**source.shifts, "at night": sure}
    mixed = summary.model_copy(update={"image_sources": {name: source.model_copy(update={"shifts": shifts})}})
    assert hardest_shift(mixed) == "at night"
    assert headline(mixed) == "“at night” is shown to cost the models 13 points of accuracy."


def test_a_model_that_loses_nothing_is_not_among_those_that_lose_most() -> None:
    snow = effect_of("in the snow")
    nothing = Estimate(estimate=0.0, low=-0.1, high=0.1, n=20)
    models = {
        name: found.model_copy(update={"drop": nothing} if number else {})
        for number, (name, found) in enumerate(snow.models.items())
    }
    alone = changed(in_the_snow=snow.model_copy(update={"models": models}), at_night=None, pencil_sketch=None)
    told = headline(told_apart(alone))
    assert told == f"“in the snow” costs most: 39 points of accuracy, averaged over {len(MODELS)} models."


def test_a_shift_that_is_the_worst_of_few_models_is_told_by_its_mean() -> None:
    snow, night = effect_of("in the snow"), effect_of("at night")
    swapped = {
        name: night.models[name].model_copy(update={"drop": snow.models[name].drop}) for name in MODELS
    }
    harmless = snow.model_copy(update={"models": dict(night.models)})
    summary = changed(in_the_snow=harmless, at_night=night.model_copy(update={"models": swapped}))
    told = headline(told_apart(summary))
    assert told == f"“in the snow” costs most: 39 points of accuracy, averaged over {len(MODELS)} models."


def test_one_model_is_told_in_the_singular() -> None:
    only = {MODELS[0]: effect_of("in the snow").models[MODELS[0]]}
    alone = effect_of("in the snow").model_copy(update={"models": only})
    summary = told_apart(changed(in_the_snow=alone, at_night=None, pencil_sketch=None))
    # The others of the request have no figure, so the one that has is named.
    assert headline(summary) == "model-0 loses most on “in the snow”: 39 points of accuracy."
    request = summary.config.request.model_copy(update={"classifiers": list(MODELS[:1])})
    config = summary.config.model_copy(update={"request": request})
    told = headline(summary.model_copy(update={"config": config}))
    assert told == "The model loses most on “in the snow”: 39 points of accuracy."


def test_without_a_shown_shift_the_headline_claims_nothing() -> None:
    unsure = effect_of("in the snow").model_copy(update={"p_adjusted": 0.5})
    told = changed(in_the_snow=unsure, at_night=None, pencil_sketch=None)
    assert headline(told) == "None of 1 shifts is shown to cost the models anything."
    assert hardest_shift(told) is None
    assert headline(changed(in_the_snow=None, at_night=None, pencil_sketch=None)).startswith(
        "No shift could be"
    )
    nothing = a_benchmark_summary(image_sources={})
    assert headline(nothing) == "This benchmark has no image source."
    assert (bars(nothing), strip(nothing, [])) == ([], ("", []))


def test_the_strip_shows_kept_pairs_of_the_hardest_shift_class_by_class() -> None:
    shift, pairs = strip(reported_summary(), made_grids())
    assert shift == "in the snow"
    assert 0 < len(pairs) <= SHOWN_PAIRS
    assert len({pair.class_name for pair in pairs[:3]}) == 3
    assert {thumb.verdict for pair in pairs for thumb in (pair.base, pair.shifted)} == {"kept"}


def test_bars_are_ranked_and_told_apart_from_what_the_generator_costs() -> None:
    found = bars(reported_summary())
    assert [bar.shift for bar in found] == ["in the snow", "at night", "pencil sketch"]
    assert max(max(bar.width, bar.alone) for bar in found) == 100.0
    assert (found[0].points, found[0].badge) == ("−39", "? suspected")
    assert found[0].note == "the generator alone may cost as much"
    assert found[1].alone > found[1].width
    assert (found[1].state, found[1].note) == ("test-unfit", "the generator alone costs more")


@pytest.mark.parametrize(
    ("confounding", "p", "high", "state", "note"),
    [
        ("not-confounded", 0.01, 0.5, "breaks", ""),
        ("cannot-tell", 0.01, 0.5, "suspected", "the generator alone may cost as much"),
        ("confounded", 0.01, 0.5, "test-unfit", "the generator alone costs more"),
        ("cannot-tell", 0.5, 0.09, "holds", ""),
        ("cannot-tell", 0.5, 0.10, "cannot-tell", ""),
        (None, 0.01, 0.5, "suspected", "no real images tell what the generator alone costs"),
        (None, 0.5, 0.09, "holds", ""),
    ],
)
def test_a_shift_has_one_of_the_five_states(
    confounding: str | None, p: float, high: float, state: str, note: str
) -> None:
    snow = next(iter(reported_summary().image_sources.values())).shifts["in the snow"]
    impact = effect_of("in the snow").impact.model_copy(update={"high": high})
    effect = effect_of("in the snow").model_copy(update={"p_adjusted": p, "impact": impact})
    told = {"effect": effect, "confounding": confounding, "confounded": confounding == "confounded"}
    shift = judged(snow.model_copy(update=told))
    assert (shift.state, note_of(shift)) == (state, note)


def test_the_headline_has_the_worst_state_of_the_first_source() -> None:
    assert SHIFT_BENCHMARK.headline(reported_summary()).state == "suspected"
    assert SHIFT_BENCHMARK.headline(told_apart(reported_summary())).state == "breaks"
    assert SHIFT_BENCHMARK.headline(a_benchmark_summary(image_sources={})).state == ""


def test_a_shift_without_enough_images_cannot_be_told() -> None:
    assert changed(at_night=None).image_sources["token"].shifts["at night"].state == "cannot-tell"
    made = reported_benchmark()
    html = render(changed(at_night=None), made.run, made.items, read_image)
    assert "– can't tell Too few images were kept to judge at night." in text_of(html)


def test_a_shift_below_what_the_generator_costs_is_not_the_hardest() -> None:
    snow, night = effect_of("in the snow"), effect_of("at night")
    # At night costs most, but its generator alone costs more.
    dark = night.model_copy(update={"impact": snow.impact})
    mild = snow.model_copy(update={"impact": night.impact})
    told = changed(at_night=dark, in_the_snow=mild)
    assert hardest_shift(told) != "at night"
    unsure = snow.model_copy(update={"p_adjusted": 0.5})
    assert headline(changed(in_the_snow=unsure, pencil_sketch=None)) == (
        "None of 2 shifts is shown to cost the models anything; "
        "the generator alone costs more than 1 of them."
    )


def test_models_are_shaded_by_what_they_lose_the_worst_first() -> None:
    cells = model_cells(reported_summary())
    lowest = [min(cell.value for cell in row.values() if cell) for row in cells.values()]
    assert lowest == sorted(lowest)
    first = next(iter(cells.values()))["in the snow"]
    assert first is not None
    assert first.level == 3


@pytest.mark.parametrize("part", ["verdict", "ranking", "compare", "images", "trust", "method", "reproduce"])
def test_the_report_has_its_parts_in_order(part: str) -> None:
    made = reported_benchmark()
    html = render(reported_summary(), made.run, made.items, read_image)
    places = [
        html.index(f'id="{name}"') for name in ("verdict", "ranking", "compare", "images", "trust", "method")
    ]
    assert places == sorted(places)
    assert f'id="{part}"' in html
    assert "same class, same noise" in text_of(html)
