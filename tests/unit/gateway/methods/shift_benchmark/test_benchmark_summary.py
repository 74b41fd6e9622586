"""The summary of a shift benchmark: the core's figures on the records, under the given thresholds."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision
from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.benchmark import shift_benchmark
from counterpose_gateway.methods.shift_benchmark import image_source_summary
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.methods.shift_benchmark.evidence import ImageSourceEvidence
from counterpose_gateway.methods.shift_benchmark.image_source_summary import state_of
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from counterpose_gateway.steps.estimator import Estimator
from fakes.recorded_benchmarks import BASE, IMAGE, PENCIL, SNOW, Benchmark, recorded_config
from fakes.simulated_answers import World

N = 8
RIGHT, WRONG = [True, True, True], [False, False, False]


def world(shifts: int = 2, classes: int = 2, models: int = 3) -> World:
    return World(shifts=shifts, classes=classes, models=models)


def benchmark(config: ShiftBenchmarkConfig | None = None, *, real: bool = True) -> Benchmark:
    """Two classes under two shifts, all images well above every threshold."""
    made = Benchmark(config or recorded_config())
    made.image_source("token", world().values(np.random.default_rng(1), N))
    for index in range(2 if real else 0):
        made.real(index, [0.1 + 0.01 * step for step in range(10)], RIGHT)
    return made


def summary(made: Benchmark, **options: Any) -> ShiftBenchmarkSummary:
    return summarize(made.run, made.columns, **options)


def decision(number: int = 1, shift: str = "in the snow", **told: Any) -> ShiftThresholdDecision:
    known = {"checkpoint": "clip", "author": "Ada", "decided_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}
    return ShiftThresholdDecision(id=number, shift=shift, **(known | told))


def test_the_summary_figures_match_the_core_estimates() -> None:
    made = benchmark()
    values = world().values(np.random.default_rng(1), N)
    found = summary(made).image_sources["token"]
    all_kept = np.ones(values.shape[:3], dtype=np.bool_)
    answers = ModelAnswers(
        ("steady", "leaning", "tipsy"), ("base", SNOW.name, PENCIL.name), ("plate", "sled"), values,
        all_kept, all_kept,
    )  # fmt: skip
    expected = shift_benchmark(answers, Estimator(3).generator("benchmark/token"))
    for row in expected.rows:
        shift = found.shifts[row.shift]
        assert row.effect is not None
        assert shift.effect is not None
        assert shift.effect.impact == row.effect.impact
        assert shift.state == state_of(shift.effect, shift.confounding)
        assert (shift.effect.p, shift.effect.p_adjusted) == (row.effect.p, row.effect.p_holm)
        assert shift.effect.slope.slope == row.effect.slope.slope
        assert shift.effect.models["tipsy"].drop == row.effect.models[2].drop
        assert shift.share_kept == row.share_kept
    assert found.common == ["plate", "sled"]


def test_an_image_below_its_class_threshold_is_dropped_and_counted() -> None:
    made = benchmark()
    # Of ten real images from 0.10 to 0.19 the fifth percentile is 0.1045.
    made.items[0] = _similar(made, 0, to_object=0.104)
    made.items[1] = _similar(made, 1, to_object=0.105)
    counts = summary(made).image_sources["token"].base.counts
    assert (counts.planned, counts.kept, counts.without_object) == (2 * N, 2 * N - 1, 1)


def test_styles_are_compared_with_the_caption_without_photo() -> None:
    made = benchmark()
    where = next(i for i, item in enumerate(made.items) if item.result and item.result.shift == PENCIL.name)
    # The plain caption is nearer to real images by 0.1, and so is its threshold.
    made.items[where] = _similar(made, where, to_object=0.15)
    found = summary(made).image_sources["token"]
    assert found.shifts[PENCIL.name].counts.without_object == 1
    assert found.shifts[SNOW.name].counts.without_object == 0


def test_a_different_percentile_refilters_without_regenerating() -> None:
    made = benchmark()
    made.items[0] = _similar(made, 0, to_object=0.15)
    assert summary(made).image_sources["token"].base.counts.without_object == 0
    strict = summary(made, object_percentile=90.0)
    assert strict.object_percentile == 90.0
    assert strict.image_sources["token"].base.counts.without_object == 1
    with pytest.raises(InvalidRequest):
        summary(made, object_percentile=101.0)


def test_the_latest_reviewed_threshold_overrides_suite_and_published_ones() -> None:
    made = benchmark()
    where = next(i for i, item in enumerate(made.items) if item.result and item.result.shift == SNOW.name)
    made.items[where] = _similar(made, where, to_shift=0.25)
    published = summary(made).image_sources["token"].shifts[SNOW.name]
    assert (published.threshold.set_by, published.counts.without_shift) == ("published", 0)
    decisions = [decision(1, threshold=0.9), decision(2, threshold=0.26, author="Grace")]
    found = summary(made, decisions=decisions).image_sources["token"].shifts[SNOW.name]
    assert (found.threshold.set_by, found.threshold.author) == ("person", "Grace")
    assert found.counts.without_shift == 1
    assert found.share_kept.estimate == pytest.approx((2 * N - 1) / (2 * N))


def test_threshold_decisions_for_another_clip_are_ignored() -> None:
    found = summary(benchmark(), decisions=[decision(threshold=0.9, checkpoint="other")])
    assert found.image_sources["token"].shifts[SNOW.name].threshold.set_by == "published"


def test_all_images_are_dropped_if_no_percentile_was_accepted() -> None:
    found = (
        summary(benchmark(), decisions=[decision(threshold=None)]).image_sources["token"].shifts[SNOW.name]
    )
    assert found.threshold.nothing_passes
    assert (found.counts.kept, found.counts.without_shift) == (0, 2 * N)
    assert found.thin == ["plate", "sled"]
    assert (found.effect, found.on_common) == (None, None)


def test_without_a_shift_threshold_only_the_object_filter_applies_with_a_note() -> None:
    found = summary(benchmark())
    assert found.image_sources["token"].shifts[PENCIL.name].threshold.set_by is None
    assert found.image_sources["token"].shifts[PENCIL.name].counts.kept == 2 * N
    assert any("shifts without a threshold" in note and PENCIL.name in note for note in found.notes)
    assert not any("shifts without a threshold" in note and SNOW.name in note for note in found.notes)


def test_classes_with_fewer_than_five_images_are_named_and_excluded() -> None:
    made = benchmark()
    for index, item in enumerate(made.items):
        snowy = item.result and item.result.shift == SNOW.name
        if snowy and item.label == "plate" and item.slot >= 4:
            made.items[index] = _similar(made, index, to_shift=0.0)
    found = summary(made).image_sources["token"]
    assert found.shifts[SNOW.name].thin == ["plate"]
    effects = found.shifts[SNOW.name].effect, found.shifts[PENCIL.name].on_common
    assert all(effect is not None and effect.classes == ["sled"] for effect in effects)
    assert found.shifts[PENCIL.name].thin == []
    assert found.common == ["sled"]


def test_every_planned_image_is_counted_exactly_once() -> None:
    made = benchmark()
    ends: list[dict[str, Any]] = [
        {"state": "failed", "code": "internal-error", "result": None},
        {"state": "filtered", "reason": "objectionable"},
        {"state": "filtered", "reason": "not-found", "result": None},
        {"state": "cancelled", "result": None},
        {"state": "pending", "result": None},
        {"state": "leased", "result": None},
    ]
    for index, end in enumerate(ends):
        made.items[index] = made.items[index].model_copy(update=end)
    found = summary(made)
    counts = found.image_sources["token"].base.counts
    assert counts.planned == 2 * N
    assert (counts.failed, counts.objectionable, counts.not_found, counts.unmade) == (1, 1, 1, 3)
    assert counts.kept == counts.made == 2 * N - 6
    assert found.counts == {
        "planned": len(made.items), "done": len(made.items) - 6, "filtered": 2, "failed": 1, "cancelled": 1,
        "pending": 2,
    }  # fmt: skip
    assert found.failed_codes == {"internal-error": 1}
    assert found.dropped == {"objectionable": 1, "not-found": 1}
    assert "objectionable: 1; not-found: 1; internal-error: 1" in str(found)


@pytest.mark.paper("DI-X-confounding")
def test_a_shift_effect_below_the_generator_gap_is_flagged() -> None:
    made = Benchmark(recorded_config())
    wrong = np.zeros((3, 2, N, 3), dtype=np.bool_)
    made.image_source("token", wrong)
    for index in range(2):
        made.real(index, [0.1] * 10, RIGHT)
    found = summary(made)
    snow = found.image_sources["token"].shifts[SNOW.name]
    assert snow.gap is not None
    assert snow.gap.gap.estimate == pytest.approx(1.0)
    assert snow.confounded
    assert snow.state == "test-unfit"
    assert found.real.models["steady"].estimate == 1.0
    assert found.real.models["steady"].n == found.real.images == 20


def test_without_real_images_the_object_filter_passes_all_with_a_note() -> None:
    made = benchmark(real=False)
    made.items[0] = _similar(made, 0, to_object=-0.9)
    found = summary(made)
    assert found.image_sources["token"].base.counts.without_object == 0
    assert found.image_sources["token"].shifts[SNOW.name].gap is None
    assert found.real.without == ["plate", "sled"]
    assert any("without real images" in note for note in found.notes)


def test_a_class_without_real_images_does_not_affect_other_thresholds() -> None:
    made = benchmark(real=False)
    made.real(1, [0.1] * 10, RIGHT)
    made.items[0] = _similar(made, 0, to_object=-0.9)
    where = next(i for i, item in enumerate(made.items) if item.label == "sled")
    made.items[where] = _similar(made, where, to_object=-0.9)
    found = summary(made)
    assert found.image_sources["token"].base.counts.without_object == 1
    assert list(found.real.thresholds) == ["sled"]


def test_provided_photographs_are_not_paired_with_base_images() -> None:
    config = recorded_config(
        shifts=(BASE, SNOW, PENCIL),
        image_sources=["photographs"],
        photographs={"base": "demo", SNOW.name: "snowy"},
    )
    made = Benchmark(config)
    values = np.zeros((2, 2, N, 3), dtype=np.bool_)
    values[0] = True
    made.image_source("photographs", values)
    made.real(0, [0.1] * 5, RIGHT)
    made.real(1, [0.1] * 5, RIGHT)
    found = summary(made).image_sources["photographs"]
    # There are no photographs of pencil sketches, and no row of them.
    assert list(found.shifts) == [SNOW.name]
    effect = found.shifts[SNOW.name].effect
    assert effect is not None
    assert effect.impact.estimate == pytest.approx(1.0)
    assert effect.impact.n == 2 * N
    evidence = ImageSourceEvidence.of("photographs", made.columns, config)
    assert not np.any(evidence.made[0] & evidence.made[1])


def test_frames_of_one_video_count_once_in_a_benchmark() -> None:
    """Each video has two frames among the real images, two under the base and two under the shift."""
    named, frames = {"base": "demo", SNOW.name: "snowy"}, 12
    config = recorded_config(shifts=(BASE, SNOW), image_sources=["photographs"], photographs=named, n=frames)
    made = Benchmark(config)
    made.image_source("photographs", np.random.default_rng(2).random((2, 2, frames, 3)) < 0.7)
    for index in range(2):
        made.real(index, [0.1] * frames, RIGHT)
    groups = {}
    for number, item in enumerate(made.items):
        assert item.result is not None
        image = f"{number:064x}"
        result = item.result.model_copy(update={"image": image})
        made.items[number] = item.model_copy(update={"result": result})
        groups[image] = f"{item.label}/{item.slot // 2}"
    alone = summary(made).image_sources["photographs"].shifts[SNOW.name]
    made.config = config.model_copy(update={"groups": groups})
    grouped = summary(made).image_sources["photographs"].shifts[SNOW.name]
    assert alone.effect is not None
    assert grouped.effect is not None
    assert (alone.effect.impact.n, grouped.effect.impact.n) == (2 * frames, frames)
    assert grouped.effect.impact.estimate == alone.effect.impact.estimate
    assert grouped.effect.impact != alone.effect.impact
    assert alone.gap is not None
    assert grouped.gap is not None
    assert (alone.gap.gap.n, grouped.gap.gap.n) == (2 * frames, frames)


def test_fewer_videos_than_a_class_needs_images_leave_it_out() -> None:
    config = recorded_config(
        shifts=(BASE, SNOW), image_sources=["photographs"], photographs={"base": "demo", SNOW.name: "snowy"}
    )
    made = Benchmark(config.model_copy(update={"groups": {IMAGE: "demo/video-1"}}))
    made.image_source("photographs", np.ones((2, 2, N, 3), dtype=np.bool_))
    found = summary(made).image_sources["photographs"].shifts[SNOW.name]
    assert (found.effect, found.thin) == (None, ["plate", "sled"])


def test_the_cost_per_kept_image_includes_dropped_images() -> None:
    made = benchmark()
    half = [i for i, item in enumerate(made.items) if item.slot % 2 and ".token." in item.item_group]
    for index in half:
        made.items[index] = _similar(made, index, to_object=-0.5)
    found = summary(made).image_sources["token"]
    assert found.cost.unet_evaluations == 3 * 2 * N * 100
    assert found.evaluations_per_kept == pytest.approx(200.0)
    assert found.seconds_per_kept == pytest.approx(4.0)
    assert found.passed.estimate == pytest.approx(0.5)


def test_prompts_of_a_class_are_compared_by_token_and_by_name() -> None:
    config = recorded_config(classes=("plate",), image_sources=["token", "class-name"])
    made = Benchmark(config)
    values = np.ones((3, 1, N, 3), dtype=np.bool_)
    values[1] = False
    made.image_source("token", values)
    named = values.copy()
    named[0, 0, :4] = False
    made.image_source("class-name", named)
    made.real(0, [0.1] * 5, RIGHT)
    rows = {(row.model, row.image_source, row.condition): row for row in summary(made).prompts}
    assert len(rows) == 3 * 2 * 3
    snowy = rows["steady", "token", SNOW.name]
    assert snowy.accuracy.estimate == 0.0
    assert snowy.drop is not None
    assert (snowy.drop.estimate, snowy.drop.n) == (1.0, N)
    assert snowy.prompt == SNOW.prompt
    by_name = rows["steady", "class-name", "base"].beside_token
    assert by_name is not None
    assert by_name.estimate == pytest.approx(0.5)
    assert summary(benchmark()).prompts == []


def test_per_class_results_are_listed_for_small_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = benchmark()
    plate = summary(made).image_sources["token"].classes["plate"]
    assert set(plate) == {"base", SNOW.name, PENCIL.name}
    assert plate["base"].models["steady"].n == N
    monkeypatch.setattr(image_source_summary, "MOST_CLASS_FIGURES", 17)
    found = summary(made)
    assert found.image_sources["token"].classes == {}
    assert any("single classes" in note for note in found.notes)


def test_a_run_without_results_has_a_summary_without_figures() -> None:
    made = Benchmark(recorded_config())
    for condition in range(3):
        for slot in range(N):
            made.add(Cell(condition, 0, "token"), slot, RIGHT, state="pending", result=None)
    found = summary(made).image_sources["token"]
    assert found.shifts[SNOW.name].effect is None
    assert found.shifts[SNOW.name].share_kept.n == 0
    assert found.evaluations_per_kept is None
    assert found.base.counts.unmade == N


def test_a_shift_limited_to_some_classes_leaves_other_shifts_unchanged() -> None:
    sleeping = SNOW.model_copy(update={"name": "sleeping", "classes": ["sled"]})
    made = Benchmark(recorded_config(shifts=(BASE, SNOW, sleeping)))
    values = np.ones((3, 2, N, 3), dtype=np.bool_)
    made.image_source("token", values[:2])
    for slot in range(N):
        made.add(Cell(2, 1, "token"), slot, WRONG)
    made.real(0, [0.1] * 5, RIGHT)
    made.real(1, [0.1] * 5, RIGHT)
    found = summary(made).image_sources["token"]
    assert found.common == ["plate", "sled"]
    assert found.shifts["sleeping"].thin == []
    assert found.shifts["sleeping"].classes == ["sled"]
    effect = found.shifts["sleeping"].on_common
    assert effect is not None
    assert effect.classes == ["sled"]
    assert effect.impact.estimate == pytest.approx(1.0)


@pytest.mark.fault("F29")
def test_images_measured_with_different_weights_are_noted() -> None:
    made = benchmark()
    result = made.items[0].result
    assert result is not None
    other = result.model_copy(update={"models": {"scorer": "clip@2"}})
    made.items[0] = made.items[0].model_copy(update={"result": other})
    assert any("clip@1, clip@2" in note for note in summary(made).notes)


def _similar(
    made: Benchmark, index: int, *, to_object: float | None = None, to_shift: float | None = None
) -> Any:
    item = made.items[index]
    assert item.result is not None
    changes = {"object_similarity": to_object, "shift_similarity": to_shift}
    told = {field: value for field, value in changes.items() if value is not None}
    return item.model_copy(update={"result": item.result.model_copy(update=told)})
