"""The report of a shift benchmark: self-contained, every figure with interval and n, nothing hidden."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import pytest
from PIL import Image

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.spending import Spending, Spent
from counterpose_core.contract.tasks import ClassificationTask
from counterpose_core.errors import ArtifactMissing
from counterpose_gateway.methods.shift_benchmark.report.first_screen import SHOWN_SEEDS, grids
from counterpose_gateway.methods.shift_benchmark.report.plots import (
    OTHER,
    accuracy_lines,
    groups_of,
    impact_map,
    passed_plot,
    similarity_plot,
)
from counterpose_gateway.methods.shift_benchmark.report.report import (
    dropped_rows,
    render,
    shift_rows,
    verdict,
)
from counterpose_gateway.reports.images import Album
from fakes.benchmark_answers import a_benchmark_summary, prompt_rows
from fakes.pages import text_of
from fakes.reported_benchmarks import CLASSES, MODELS, N, read_image, reported_benchmark, reported_summary


def rendered(summary: ShiftBenchmarkSummary | None = None, **changes: Any) -> str:
    made = reported_benchmark()
    return render(
        summary or reported_summary(), made.run, changes.get("items", made.items),
        changes.get("image", read_image),
    )  # fmt: skip


@pytest.fixture(scope="module")
def html() -> str:
    return rendered()


def gone(ref: str) -> bytes:
    raise ArtifactMissing(f"no artifact is stored as {ref!r}")


def test_the_report_says_which_answers_are_right(html: str) -> None:
    label, other = CLASSES[:2]
    rule = f"images of {label} may be answered by {other}"
    assert rule not in text_of(html)
    summary, task = reported_summary(), ClassificationTask(acceptable={label: [other]})
    request = summary.config.request.model_copy(update={"task": task})
    config = summary.config.model_copy(update={"request": request})
    assert rule in text_of(rendered(summary.model_copy(update={"config": config})))


def test_the_report_is_self_contained(html: str) -> None:
    assert html.count("<script") == 1
    assert "default-src 'none'; img-src data:" in html
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    assert "url(" not in html


def test_a_run_that_stopped_at_its_budget_says_so_above_and_has_its_account() -> None:
    spending = Spending(services={"editor": Spent(calls=3, images=3)}, unpriced=["m"], stopped="stopped at 3")
    text = text_of(rendered(reported_summary().model_copy(update={"spending": spending})))
    assert "The run stopped at 3." in text
    assert "servers of others: 3 calls, 3 images" in text
    assert "no price for 'm'" in text


def test_names_are_escaped_in_html() -> None:
    evil = "<img src=x onerror=alert(1)>"
    summary = a_benchmark_summary(notes=[evil], dataset=evil)
    html = rendered(summary, items=[])
    assert evil not in html
    assert "&lt;img src=x" in html


def test_every_shift_and_source_has_a_row_with_interval_and_n(html: str) -> None:
    summary = reported_summary()
    assert len(shift_rows(summary)) == 9
    text = text_of(html)
    for row in shift_rows(summary):
        effect = row.found.effect
        assert effect is not None
        assert f"n={effect.impact.n}" in text
        assert f"{effect.slope.slope.estimate:.2f}" in text
    assert text.count("boat") > 3
    assert "1 thin boat" in text


def test_the_verdict_names_the_hardest_shift_with_its_interval(html: str) -> None:
    impact = reported_summary().image_sources["token"].shifts["in the snow"].effect
    assert impact is not None
    (first, *_) = verdict(reported_summary())
    assert first.startswith("Under “in the snow” accuracy falls by ")
    assert f"n={impact.impact.n} images, {len(MODELS)} models" in first
    assert first in text_of(html)


def test_a_suspected_shift_is_told_as_one_with_its_reason(html: str) -> None:
    told = verdict(reported_summary())
    assert told[-1].startswith("These are only suspected, because it cannot be told whether the generator")
    assert told[-1].endswith("in the snow.")
    first_screen = text_of(html).partition("Can I trust this?")[0]
    assert "in the snow ? suspected the generator alone may cost as much" in first_screen
    assert "✗ breaks" not in first_screen


def test_confounded_shifts_are_flagged_and_explained(html: str) -> None:
    confounded = [row for row in shift_rows(reported_summary()) if row.found.confounded]
    assert confounded
    assert html.count("<small>confounded</small>") == len(confounded)
    assert "The generator alone costs more than these shifts" in text_of(html)


def test_a_shift_without_a_verdict_says_why() -> None:
    summary = a_benchmark_summary()
    text = text_of(rendered(summary, items=[]))
    assert "no class has 5 kept images of both" in text
    assert "Too few images were kept to judge a painting." in text
    assert "2 thin plate, boat" in text


def test_a_benchmark_without_any_verdict_has_a_report() -> None:
    source = a_benchmark_summary().image_sources["token"]
    only = source.model_copy(update={"shifts": {"a painting": source.shifts["a painting"]}})
    text = text_of(rendered(a_benchmark_summary(image_sources={"token": only}), items=[]))
    assert "No shift could be judged" in text


@pytest.mark.paper("DI-F10-scatter")
def test_accuracy_lines_have_one_point_per_model_on_both_scales() -> None:
    summary = reported_summary()
    lines = accuracy_lines(summary.image_sources["token"], summary.models)
    assert [line.shift for line in lines] == ["in the snow", "pencil sketch", "at night"]
    for line in lines:
        assert len(line.linear.marks) == len(line.normal.marks) == len(MODELS)
        assert {found.kind for found in line.linear.lines} >= {"fitted"}
        assert line.linear.series == ["test_vit", "test_resnet"]
        assert f"(n={len(MODELS)})" in line.sentence
    snow = lines[0]
    # A shift that costs much lies below the line where nothing is lost.
    below = [mark for mark in snow.linear.marks if "base" in mark.title]
    assert len(below) == len(MODELS)
    ends = snow.linear.marks[0]
    assert ends.x_ends[0] < ends.x < ends.x_ends[1]
    assert ends.y_ends[1] < ends.y < ends.y_ends[0]


def test_models_without_metadata_form_one_group() -> None:
    image_source = reported_summary().image_sources["token"]
    assert set(groups_of(image_source, {}).values()) == {OTHER}


@pytest.mark.paper("DI-S6-zoo")
def test_classifiers_are_grouped_by_their_metadata() -> None:
    summary = reported_summary()
    assert summary.grouped_by("architecture") == {"test_vit": [*MODELS[::2]], "test_resnet": [*MODELS[1::2]]}
    # The first has no parameters, which is nothing that anybody told.
    assert summary.grouped_by("parameters") == {None: [MODELS[0]]} | {
        1000 * number: [name] for number, name in enumerate(MODELS) if number
    }
    unknown = summary.model_copy(update={"models": {}})
    assert unknown.grouped_by("training") == {None: list(MODELS)}


@pytest.mark.paper("DI-F11-plane")
def test_the_shift_map_has_one_point_per_shift_coloured_by_family() -> None:
    found = impact_map(reported_summary().image_sources["token"])
    assert found is not None
    assert {mark.name for mark in found.marks} == {"in the snow", "pencil sketch", "at night"}
    assert set(found.series) == {"background", "style", "time"}
    heights = {mark.name: mark.y for mark in found.marks}
    assert heights["in the snow"] < heights["pencil sketch"]


def many_shifts(count: int) -> ShiftBenchmarkSummary:
    """As many shifts as asked for, that all cost the same."""
    summary = reported_summary()
    image_source = summary.image_sources["token"]
    shifts = {
        f"a photo of a <class> on a table, number {number}": image_source.shifts["in the snow"]
        for number in range(count)
    }
    return summary.model_copy(
        update={"image_sources": {"token": image_source.model_copy(update={"shifts": shifts})}}
    )


def test_the_shift_map_is_numbered_by_decreasing_impact() -> None:
    image_source = reported_summary().image_sources["token"]
    found = impact_map(image_source)
    assert found is not None
    effects = {mark.name: image_source.shifts[mark.name].effect for mark in found.key}
    impacts = [effect.impact.estimate for effect in effects.values() if effect is not None]
    assert [mark.number for mark in found.key] == [1, 2, 3]
    assert impacts == sorted(impacts, key=lambda impact: impact or 0.0, reverse=True)


def test_the_map_key_gives_full_shift_names() -> None:
    summary = many_shifts(120)
    found = impact_map(summary.image_sources["token"])
    assert found is not None
    assert len(found.key) == 120
    text = text_of(rendered(summary, items=[]))
    assert text.count("a photo of a <class> on a table, number 119") > 1
    assert "120 a photo of a <class> on a table, number 119" in text


def test_accuracy_line_points_are_not_numbered() -> None:
    summary = reported_summary()
    lines = accuracy_lines(summary.image_sources["token"], summary.models)
    assert all(mark.number is None for line in lines for mark in line.linear.marks)


@pytest.mark.paper("DI-F17-similarity")
def test_sources_are_compared_by_similarity_and_pass_rate() -> None:
    summary = reported_summary()
    similarities, passed = similarity_plot(summary), passed_plot(summary)
    assert [band.label for band in similarities.bands] == ["to the object", "to the shift"]
    assert similarities.series == passed.series == ["token", "class-name", "photographs"]
    assert all(len(band.dots) == 3 for band in (*similarities.bands, *passed.bands))
    best = max(summary.image_sources, key=lambda name: summary.image_sources[name].passed.estimate or 0.0)
    dots = {dot.series: dot.x for dot in passed.bands[0].dots}
    assert max(dots, key=lambda series: dots[series]) == passed.series.index(best)


@pytest.mark.paper("DI-F9-benchmark")
def test_the_grid_has_class_rows_seed_columns_and_base_above_shift() -> None:
    summary, made = reported_summary(), reported_benchmark()
    found = grids(summary, made.items, Album(read_image), run="run-1")
    assert [(grid.shift, grid.image_source) for grid in found] == [
        ("in the snow", "token"), ("pencil sketch", "token"), ("at night", "token"),
    ]  # fmt: skip
    for grid in found:
        assert list(grid.rows) == list(CLASSES)
        for cells in grid.rows.values():
            assert len(cells) == min(N, SHOWN_SEEDS)
    by_id = {item.id: item for item in made.items}
    cell = found[0].rows["sled"][2]
    assert cell.base is not None
    assert cell.shifted is not None
    base, shifted = by_id[cell.base.item].result, by_id[cell.shifted.item].result
    assert base is not None
    assert shifted is not None
    assert (base.shift, shifted.shift, base.seed) == ("base", "in the snow", shifted.seed)


def test_the_grid_keeps_only_the_first_classes() -> None:
    summary = reported_summary()
    names = [*CLASSES, "tram", "bus", "van"]
    config = summary.config.model_copy(update={"classes": names})
    made = reported_benchmark().items
    held: list[str] = []
    relabelled = [
        item.model_copy(update={"label": names[3 + number % 3]}) if number % 2 else item
        for number, item in enumerate(made)
    ]

    def read(ref: str) -> bytes:
        held.append(ref)
        return read_image(ref)

    found = grids(summary.model_copy(update={"config": config}), relabelled, Album(read), run="run-1")
    assert [list(grid.rows) for grid in found] == [[*CLASSES, "tram"]] * 3
    assert len(held) <= 4 * SHOWN_SEEDS * 4


def test_dropped_images_are_faded_with_a_reason(html: str) -> None:
    assert html.count('class="dropped"') >= SHOWN_SEEDS
    assert "(dropped: no shift)" in html


def test_drop_counts_match_the_summary(html: str) -> None:
    rows = dropped_rows(reported_summary())
    assert len(rows) == 12
    night = next(row for row in rows if (row.name, row.image_source) == ("at night", "token"))
    assert night.found.counts.without_shift > 0
    counts = night.found.counts
    assert f"at night token {counts.planned} {counts.kept} {counts.without_object}" in text_of(html)


def marks(html: str) -> list[str]:
    """What each image of a page says of itself: its XMP, empty for none."""
    found = []
    for data in re.findall(r"data:image/webp;base64,([^\"]+)", html):
        with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
            found.append(bytes(opened.info.get("xmp", b"")).decode())
    return found


def test_only_generated_images_are_labelled_generated(html: str) -> None:
    told = marks(html)
    assert told
    assert all("trainedAlgorithmicMedia" in each for each in told)
    only = reported_summary().config.request.model_copy(update={"image_sources": ["photographs"]})
    summary = reported_summary()
    config = summary.config.model_copy(update={"request": only})
    kept = {"photographs": summary.image_sources["photographs"]}
    told = marks(rendered(summary.model_copy(update={"config": config, "image_sources": kept})))
    assert told
    assert not any(told)


def test_missing_images_leave_a_gap() -> None:
    assert "image not available" in rendered(image=gone)


def test_prompts_of_a_class_are_shown_side_by_side() -> None:
    text = text_of(rendered(a_benchmark_summary(prompts=prompt_rows()), items=[]))
    assert "Prompts side by side" in text
    assert "class-name in the snow" in text


def test_thresholds_name_their_author_and_costs_name_their_source(html: str) -> None:
    text = text_of(html)
    assert "a photo at night 0.200 suite" in text
    assert "a pencil sketch – not set" in text
    found = reported_summary().image_sources["token"]
    assert f"{found.evaluations_per_kept:.1f}" in text
    assert str(found.cost) in text
