"""The figures of a transfer: who is what to whom, images by caption, and the copy beside others."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import jsonschema
import pytest

from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.transfers import TransferInstruction, TransferItem
from counterpose_core.types import Estimate
from evaluation.evidence.heat_map import heat_map
from evaluation.evidence.transfers import finding, read_transfers, transfers_map, transfers_page
from evaluation.in_process import EndedRun
from evaluation.paths import RESULTS
from evaluation.transfers.figures import contrasts_of, counts_of, relations_of
from evaluation.transfers.report import CellReport, TransferReport
from evaluation.transfers.roster import COLUMNS, COPIES, SOURCES, architecture_of, relation
from evaluation.transfers.study import Row

ROW, COPY = "leaning-resnet", "local:leaning-resnet-reseeded"
OTHER = "leaning-convnext"
SCHEMA = RESULTS / "transfers.schema.json"


def an_item(
    number: int, failed: dict[str, bool], caption: str = "a boat", phase: str = "fooling"
) -> TransferItem:
    told = TransferInstruction.model_validate({"phase": phase, "fools": [ROW], "caption": caption})
    image = f"{number:064x}"
    return TransferItem(
        id=str(number), ordinal=number, kind="image", item_group="g", source_image=image, label="boat",
        state="done", result=SampleResult(image=image, failed=failed), instruction=told,
    )  # fmt: skip


def a_row(items: Sequence[TransferItem]) -> Row:
    run = Run(
        id="r", kind="transfer", state="completed", dataset="",
        created_at=dt.datetime(2000, 1, 1, tzinfo=dt.UTC),
        request_counts=RequestCounts(total=0, pending=0, done=0, filtered=0, failed=0, cancelled=0),
        resolved_config={},
    )  # fmt: skip
    return Row(ROW, EndedRun(run, []), EndedRun(run, []), EndedRun(run, items), EndedRun(run, []))


def a_cell(column: str, unchosen: float) -> CellReport:
    rate = Estimate(estimate=unchosen, low=0.0, high=1.0, n=16)
    return CellReport(
        row=ROW, column=column, architecture="test_resnet", relation=relation(ROW, column), failures=1,
        captions=2, rate=rate, unanswered=0, alone=rate, p=None, unchosen=rate,
    )  # fmt: skip


def test_a_copy_is_the_same_network_taught_the_same_from_another_seed() -> None:
    assert [relation(ROW, column) for column in COLUMNS] == [
        "same-architecture", "chosen", "other-architecture", "other-architecture", "reseeded",
    ]  # fmt: skip
    # To another one's images a copy is as any other classifier.
    assert relation("leaning-vit", COPY) == "other-architecture"
    assert relation("unbiased-resnet", COPY) == "same-architecture"
    assert architecture_of(COPY) == architecture_of(ROW)
    assert len({each.number for each in COPIES}) == len(COPIES)
    assert COLUMNS[: len(SOURCES)] == SOURCES


def test_failures_are_counted_by_caption_and_baselines_are_no_part() -> None:
    items = [
        an_item(0, {COPY: True}), an_item(1, {COPY: False}), an_item(2, {COPY: True}, "a boat at night"),
        an_item(3, {}), an_item(4, {COPY: True}, phase="baseline"),
    ]  # fmt: skip
    assert counts_of(items, ROW, COPY) == {"boat: a boat": (1, 2), "boat: a boat at night": (1, 1)}
    assert counts_of(items, "leaning-vit", COPY) == {}


@pytest.mark.paper("BUGS-S4.2-same-arch")
@pytest.mark.paper("BUGS-S4.2-other-arch")
def test_the_copy_is_compared_image_by_image_and_each_caption_weighs_one() -> None:
    # Of the first caption the copy fails on both and the other on none; of the second as often as the other.
    failed = [
        (True, False, "a"),
        (True, False, "a"),
        (True, True, "b"),
        (False, False, "b"),
        (True, True, "b"),
    ]
    items = [
        an_item(number, {COPY: copy, OTHER: other}, caption)
        for number, (copy, other, caption) in enumerate(failed)
    ]
    found = {each.other: each for each in contrasts_of(a_row(items))}
    assert set(found) == {OTHER}
    contrast = found[OTHER]
    assert (contrast.relation, contrast.images) == ("other-architecture", 5)
    assert (contrast.difference.estimate, contrast.difference.n) == (0.5, 2)
    # Without the copy there is nothing to compare.
    assert contrasts_of(a_row([an_item(0, {OTHER: True})])) == []


def test_a_relation_s_rate_is_over_all_its_images() -> None:
    items = [
        an_item(number, {ROW: True, COPY: number < 3, OTHER: False}, f"c{number % 2}") for number in range(4)
    ]
    cells = [a_cell(ROW, 0.5), a_cell(COPY, 0.25), a_cell(OTHER, 0.0)]
    found = {each.relation: each for each in relations_of([a_row(items)], cells)}
    assert (found["chosen"].rate.estimate, found["reseeded"].rate.estimate) == (1.0, 0.75)
    assert (found["reseeded"].rate.n, found["reseeded"].cells) == (4, 1)
    assert found["other-architecture"].rate.estimate == 0.0
    assert found["same-architecture"].rate.n == 0
    assert found["reseeded"].unchosen == [0.25]


@pytest.mark.paper("BUGS-F4-matrix")
def test_the_map_shades_rates_and_frames_those_by_choice() -> None:
    rates = {("a", "a"): Estimate(estimate=1.0, low=0.9, high=1.0, n=40),
             ("a", "b"): Estimate(estimate=0.25, low=0.1, high=0.4, n=40)}  # fmt: skip
    drawn = heat_map("title", ["a"], ["a", "b", "c"], rates, frozenset({("a", "a")}))
    assert drawn.count("<rect") == 3
    assert drawn.count('class="chosen"') == 1
    assert "a, a: 1.000, n = 40" in drawn
    assert ">0.25</text>" in drawn
    assert "0.10 to 0.40" in drawn
    assert "a, c: no images" in drawn


@pytest.mark.paper("BUGS-S4.2-in-g-rn")
@pytest.mark.paper("BUGS-S4.2-in-g-vit")
@pytest.mark.paper("BUGS-T2-distances")
def test_the_page_has_every_dataset_every_cell_and_every_distance() -> None:
    made = read_transfers()
    text = transfers_page(made)
    assert finding(made) in text
    assert [each.source for each in made.datasets] == list(SOURCES)
    for each in made.datasets:
        assert each.kept + sum(each.dropped.values()) == each.made
        # What is kept was chosen, so that the rate on it is 1 and says nothing of other images.
        assert each.by_choice.estimate in (1.0, None)
    fooled = {each.source for each in made.datasets if each.kept}
    columns = made.setting.columns
    assert {(cell.row, cell.column) for cell in made.cells} == {(row, of) for row in fooled for of in columns}
    assert made.distances is not None
    assert {"fools leaning-resnet", "fools leaning-vit", "fools any of them"} <= set(made.distances.rows)
    for row in made.distances.rows.values():
        assert (row.frechet_corrected is None) == bool(row.no_frechet)
    assert made.distances.rows["fools any of them"].kernel is not None
    assert transfers_map(made).count("<rect") == len(SOURCES) * len(columns)


def test_the_schema_describes_the_written_file() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema == TransferReport.model_json_schema(mode="serialization")
    written = json.loads((RESULTS / "transfers.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(written)
