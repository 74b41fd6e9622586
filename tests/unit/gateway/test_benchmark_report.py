"""The report of a shift benchmark: self-contained, every figure with interval and n, nothing hidden."""

from __future__ import annotations

import base64
import io
import re
from html import unescape
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from fakes.reported_benchmarks import CLASSES, MODELS, N, read_picture, reported_benchmark, reported_summary
from fakes.told_benchmarks import a_benchmark_summary, prompt_rows
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.errors import ArtifactMissing
from faultline_gateway.reports.benchmark_grid import SHOWN_SEEDS, grids
from faultline_gateway.reports.benchmark_plots import (
    OTHER,
    accuracy_lines,
    groups_of,
    impact_map,
    passed_plot,
    similarity_plot,
)
from faultline_gateway.reports.benchmark_report import dropped_rows, render_benchmark, shift_rows, verdict
from faultline_gateway.reports.pictures import Album


def rendered(summary: ShiftBenchmarkSummary | None = None, **changes: Any) -> str:
    made = reported_benchmark()
    return render_benchmark(
        summary or reported_summary(), made.run, changes.get("items", made.items),
        changes.get("picture", read_picture),
    )  # fmt: skip


@pytest.fixture(scope="module")
def html() -> str:
    return rendered()


def words(html: str) -> str:
    """What is read of a page, as one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def gone(ref: str) -> bytes:
    raise ArtifactMissing(f"no artifact is stored as {ref!r}")


def test_it_needs_nothing_but_itself(html: str) -> None:
    assert "<script" not in html
    assert "default-src 'none'; img-src data:" in html
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    assert "url(" not in html


def test_names_cannot_break_out_of_the_page() -> None:
    evil = "<img src=x onerror=alert(1)>"
    summary = a_benchmark_summary(notes=[evil], dataset=evil)
    html = rendered(summary, items=[])
    assert evil not in html
    assert "&lt;img src=x" in html


def test_every_shift_and_source_has_a_row_with_interval_and_n(html: str) -> None:
    summary = reported_summary()
    assert len(shift_rows(summary)) == 9
    text = words(html)
    for row in shift_rows(summary):
        effect = row.found.effect
        assert effect is not None
        assert f"n={effect.impact.n}" in text
        assert f"{effect.slope.slope.estimate:.2f}" in text
    assert text.count("boat") > 3
    assert "1 thin boat" in text


def test_the_verdict_names_the_hardest_shift_with_its_interval(html: str) -> None:
    impact = reported_summary().sources["token"].shifts["in the snow"].effect
    assert impact is not None
    (first, *_) = verdict(reported_summary())
    assert first.startswith("“in the snow” costs most: accuracy falls by ")
    assert f"n={impact.impact.n} pictures, {len(MODELS)} models" in first
    assert first in words(html)


def test_what_is_confounded_is_flagged_and_said(html: str) -> None:
    confounded = [row for row in shift_rows(reported_summary()) if row.found.confounded]
    assert confounded
    assert html.count('<span class="tag hot">confounded</span>') == len(confounded)
    assert "The generator alone costs more than these shifts" in words(html)


def test_a_shift_that_cannot_be_judged_says_so() -> None:
    summary = a_benchmark_summary()
    text = words(rendered(summary, items=[]))
    assert "no class with 5 pictures of both" in text
    assert "Too few pictures were left to judge a painting." in text
    assert "2 thin plate, boat" in text


def test_a_benchmark_without_a_judged_shift_has_a_report_too() -> None:
    source = a_benchmark_summary().sources["token"]
    only = source.model_copy(update={"shifts": {"a painting": source.shifts["a painting"]}})
    text = words(rendered(a_benchmark_summary(sources={"token": only}), items=[]))
    assert "No shift could be judged" in text


def test_accuracy_lines_have_a_point_a_model_on_both_scales() -> None:
    summary = reported_summary()
    lines = accuracy_lines(summary.sources["token"], summary.models)
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


def test_models_that_nobody_describes_are_one_group() -> None:
    source = reported_summary().sources["token"]
    assert set(groups_of(source, {}).values()) == {OTHER}


def test_classifiers_are_grouped_by_what_is_told_of_them() -> None:
    summary = reported_summary()
    assert summary.grouped_by("architecture") == {"test_vit": [*MODELS[::2]], "test_resnet": [*MODELS[1::2]]}
    # The first has no parameters, which is nothing that anybody told.
    assert summary.grouped_by("parameters") == {None: [MODELS[0]]} | {
        1000 * number: [name] for number, name in enumerate(MODELS) if number
    }
    unknown = summary.model_copy(update={"models": {}})
    assert unknown.grouped_by("training") == {None: list(MODELS)}


def test_the_map_of_shifts_has_a_point_each_coloured_by_family() -> None:
    found = impact_map(reported_summary().sources["token"])
    assert found is not None
    assert [mark.name for mark in found.marks] == ["in the snow", "pencil sketch", "at night"]
    assert found.series == ["background", "style", "time"]
    heights = {mark.name: mark.y for mark in found.marks}
    assert heights["in the snow"] < heights["pencil sketch"]


def many_shifts(count: int) -> ShiftBenchmarkSummary:
    """As many shifts as asked for, that all cost the same."""
    summary = reported_summary()
    source = summary.sources["token"]
    shifts = {
        f"a photo of a <class> on a table, number {number}": source.shifts["in the snow"]
        for number in range(count)
    }
    return summary.model_copy(update={"sources": {"token": source.model_copy(update={"shifts": shifts})}})


def test_the_map_names_every_shift_of_a_catalogue_whole() -> None:
    summary = many_shifts(24)
    found = impact_map(summary.sources["token"])
    assert found is not None
    assert found.unlabelled == []
    text = words(rendered(summary, items=[]))
    assert text.count("a photo of a <class> on a table, number 23") > 1
    assert "No room for the names" not in text
    few = impact_map(many_shifts(3).sources["token"])
    assert few is not None
    assert few.height < found.height


def test_shifts_that_the_map_has_no_room_to_name_are_named_below_it() -> None:
    summary = many_shifts(120)
    found = impact_map(summary.sources["token"])
    assert found is not None
    assert found.unlabelled
    assert f"No room for the names of: {found.unlabelled[0]}" in words(rendered(summary, items=[]))


def test_sources_stand_side_by_side_in_similarity_and_share_that_passes() -> None:
    summary = reported_summary()
    similarities, passed = similarity_plot(summary), passed_plot(summary)
    assert [band.label for band in similarities.bands] == ["to the object", "to the shift"]
    assert similarities.series == passed.series == ["token", "class-name", "photographs"]
    assert all(len(band.dots) == 3 for band in (*similarities.bands, *passed.bands))
    best = max(summary.sources, key=lambda name: summary.sources[name].passed.estimate or 0.0)
    dots = {dot.series: dot.x for dot in passed.bands[0].dots}
    assert max(dots, key=lambda series: dots[series]) == passed.series.index(best)


def test_a_grid_has_classes_in_rows_and_seeds_in_columns_base_above_shift() -> None:
    summary, made = reported_summary(), reported_benchmark()
    found = grids(summary, made.items, Album(read_picture), run="run-1")
    assert [(grid.shift, grid.source) for grid in found] == [
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


def test_a_grid_shows_the_first_classes_and_no_more_are_held() -> None:
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
        return read_picture(ref)

    found = grids(summary.model_copy(update={"config": config}), relabelled, Album(read), run="run-1")
    assert [list(grid.rows) for grid in found] == [[*CLASSES, "tram"]] * 3
    assert len(held) <= 4 * SHOWN_SEEDS * 4


def test_pictures_that_were_dropped_are_faded_and_say_why(html: str) -> None:
    assert html.count('class="dropped"') >= SHOWN_SEEDS
    assert "(dropped: no shift)" in html


def test_counts_of_what_was_dropped_are_the_summary_s(html: str) -> None:
    rows = dropped_rows(reported_summary())
    assert len(rows) == 12
    night = next(row for row in rows if (row.name, row.source) == ("at night", "token"))
    assert night.found.counts.without_shift > 0
    counts = night.found.counts
    assert f"at night token {counts.planned} {counts.kept} {counts.without_object}" in words(html)


def marks(html: str) -> list[dict[str, str]]:
    """What each picture of a page says of itself."""
    found = []
    for data in re.findall(r"data:image/png;base64,([^\"]+)", html):
        with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
            assert isinstance(opened, PngImagePlugin.PngImageFile)
            found.append({str(key): str(value) for key, value in opened.text.items()})
    return found


def test_generated_pictures_say_so_and_photographs_do_not(html: str) -> None:
    told = marks(html)
    assert told
    assert all("trainedAlgorithmicMedia" in each["XML:com.adobe.xmp"] for each in told)
    only = reported_summary().config.request.model_copy(update={"sources": ["photographs"]})
    summary = reported_summary()
    config = summary.config.model_copy(update={"request": only})
    kept = {"photographs": summary.sources["photographs"]}
    told = marks(rendered(summary.model_copy(update={"config": config, "sources": kept})))
    assert told
    assert not any("synthetic" in each for each in told)


def test_pictures_that_are_gone_leave_a_gap() -> None:
    assert "picture not available" in rendered(picture=gone)


def test_prompts_of_one_class_stand_side_by_side() -> None:
    text = words(rendered(a_benchmark_summary(prompts=prompt_rows()), items=[]))
    assert "Prompts side by side" in text
    assert "class-name in the snow" in text


def test_thresholds_name_their_author_and_costs_their_source(html: str) -> None:
    text = words(html)
    assert "a photo at night 0.200 suite" in text
    assert "a pencil sketch – nobody" in text
    found = reported_summary().sources["token"]
    assert f"{found.evaluations_per_kept:.1f}" in text
    assert str(found.cost) in text
