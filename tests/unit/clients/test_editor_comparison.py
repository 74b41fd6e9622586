"""Editors compared: what is paired, what is left out, and what the page shows."""

from __future__ import annotations

from typing import Any

import pytest

from counterpose._editor_comparison import (
    WITHHELD,
    EditorComparison,
    RunOfPreset,
    compared,
    distinct_presets,
    refs_of,
)
from counterpose_core.contract.preservation import Fault, Preservation
from counterpose_core.contract.regions import OF_MASKS, RegionOfEdits
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scorer import EditScores
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import Cost
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from fakes.sdk import a_run, a_summary, figure

SCORES = {
    "image_image": 0.8,
    "text_original": 0.3,
    "text_edited": 0.3,
    "text_edited_source": 0.2,
    "text_original_edit": 0.2,
}


def ref(*names: object) -> str:
    """A digest that names what it stands for."""
    return "-".join(map(str, names)).encode().hex().ljust(64, "0")[:64]


def edit(preset: str, source: int, slot: int = 0, **changes: Any) -> Item:
    """An edit that was kept; ``faults``, ``direction`` and fields of the item may differ."""
    faults: list[Fault] | None = changes.pop("faults", [])
    record = (
        None
        if faults is None
        else Preservation(faults=faults, size_ratio=(1, 1), map=ref("map", preset, source))
    )
    result = ItemResult(
        image=ref(preset, source, slot),
        caption="a bus",
        edited_caption=changes.pop("words", "a bus in fog"),
        scores=EditScores(direction=changes.pop("direction", 0.5), **SCORES),
        preservation=record,
    )
    return _item(
        f"{preset}-{source}-{slot}", source, "edit", result, slot=slot, edit_type="background", **changes
    )


def redrawn(preset: str, source: int, psnr: float) -> Item:
    """A reconstruction."""
    record = Preservation(control=True, faults=[], size_ratio=(1, 1))
    result = ItemResult(image=ref(preset, source), caption="a bus", psnr_db=psnr, preservation=record)
    return _item(f"{preset}-{source}-r", source, "reconstruction", result)


def _item(name: str, source: int, kind: Any, result: ItemResult | None, **more: Any) -> Item:
    return Item(
        id=name,
        ordinal=0,
        kind=kind,
        item_group=f"s{source}",
        source_image=ref("source", source),
        label="bus",
        result=result,
        **({"state": "done"} | more),
    )


def ended(
    preset: str,
    items: list[Item],
    seconds: float = 0.0,
    region: RegionOfEdits | None = None,
    groups: dict[str, str] | None = None,
) -> RunOfPreset:
    """A run of these items; ``groups`` of its source images."""
    request: dict[str, Any] = {"preset": preset, "seed": 3} | ({"region": region} if region else {})
    summary = a_summary(steady=figure()).model_copy(
        update={
            "yields": {"kept": figure(0.5, 0.4, 0.6)},
            "dropped": {"gate-direction": 2},
            "service_seconds": {"editor": seconds},
            "cost": Cost(unet_evaluations=7),
        }
    )
    config: dict[str, Any] = {"request": request, "grouping": groups and {"groups": groups}}
    run = a_run("completed", len(items)).model_copy(update={"resolved_config": config})
    return RunOfPreset(preset=preset, run=run, summary=summary, items=items)


def difference(found: EditorComparison, name: str) -> Any:
    """The only difference of a figure."""
    (one,) = [each for each in found.differences if each.figure == name]
    return one


def test_kept_edits_are_compared_on_the_same_source_and_edit() -> None:
    first = [edit("a", n) for n in range(10)]
    second = [edit("b", n, state="filtered" if n < 9 else "done", reason="gate-direction") for n in range(10)]
    found = compared([ended("a", first), ended("b", second)], seed=0)
    kept = difference(found, "kept")
    assert (kept.first, kept.second, kept.difference.n) == ("a", "b", 10)
    assert kept.difference.estimate == pytest.approx(0.9)
    assert kept.p == pytest.approx(2 / 2**9)
    assert found.unpaired == 0
    assert [row.kept.estimate for row in found.editors] == [1.0, pytest.approx(0.1)]
    # What was dropped is no kept image with a fault.
    assert [row.faulty_edits.n for row in found.editors] == [10, 1]


def test_edits_of_the_users_own_are_compared_like_others() -> None:
    first = [edit("a", n).model_copy(update={"kind": "intervention"}) for n in range(4)]
    second = [edit("b", n, faults=["moved"]).model_copy(update={"kind": "intervention"}) for n in range(4)]
    found = compared([ended("a", first), ended("b", second)], seed=0)
    assert difference(found, "faulty edits").difference.estimate == -1.0
    assert [row.faults["edits"] for row in found.editors] == [{}, {"moved": 4}]
    assert len(found.worst) == 3


def test_edits_of_a_source_are_one_unit() -> None:
    first = [edit("a", n, slot) for n in range(3) for slot in range(4)]
    second = [edit("b", n, slot, state="filtered") for n in range(3) for slot in range(4)]
    kept = difference(compared([ended("a", first), ended("b", second)], seed=0), "kept")
    assert kept.difference.n == 3
    assert kept.p == 2 / 2**3


def test_a_group_of_sources_is_one_unit() -> None:
    film = {f"s{n}": "film" for n in range(11)}
    runs = [
        ended("a", [edit("a", n) for n in range(12)], groups=film),
        ended("b", [edit("b", n, state="filtered" if n else "done") for n in range(12)], groups=film),
    ]
    found = compared(runs, seed=0)
    kept = difference(found, "kept")
    # Eleven frames, of which ten differ, and one image that does.
    assert (kept.difference.n, kept.p) == (2, 0.5)
    assert kept.difference.estimate == pytest.approx((10 / 11 + 1) / 2)
    assert [(row.sources, row.kept.n) for row in found.editors] == [(12, 2), (12, 2)]
    assert found.editors[1].kept.estimate == pytest.approx(1 / 22)


def test_what_one_run_did_not_end_or_planned_otherwise_is_in_no_difference() -> None:
    first = [edit("a", 0), edit("a", 1), edit("a", 2, words="a bus in rain")]
    failed = _item("b-1", 1, "edit", None, edit_type="background", state="failed", code="backend-error")
    found = compared([ended("a", first), ended("b", [edit("b", 0), failed, edit("b", 2)])], seed=0)
    assert difference(found, "kept").difference.n == 1
    # That of rain here and of fog there, and the failed one; with its counterpart, each is one edit.
    assert found.unpaired == difference(found, "kept").left_out == 2


def test_an_edit_that_failed_is_not_kept() -> None:
    failed = [
        _item(f"b-{n}", n, "edit", None, edit_type="background", state="failed", code="backend-error")
        for n in range(1, 10)
    ]
    found = compared([ended("a", [edit("a", n) for n in range(10)]), ended("b", [edit("b", 0), *failed])], 0)
    assert [(row.kept.estimate, row.kept.n) for row in found.editors] == [(1.0, 10), (pytest.approx(0.1), 10)]
    assert [row.failed for row in found.editors] == [0, 9]
    assert "<td>gate-direction 2, failed 9</td>" in found.to_html()


def test_faults_are_compared_where_both_were_measured() -> None:
    first = [edit("a", 0, faults=["moved"]), edit("a", 1), edit("a", 2)]
    second = [edit("b", 0), edit("b", 1), edit("b", 2, faults=None)]
    faulty = difference(compared([ended("a", first), ended("b", second)], seed=0), "faulty edits")
    assert (faulty.difference.estimate, faulty.difference.n) == (0.5, 2)


def test_a_difference_says_how_many_edits_it_lacks() -> None:
    # The second editor is as faulty, but its faulty edits are dropped: of those that both keep, none is.
    faults: list[list[Fault]] = [["moved"] if n < 6 else [] for n in range(12)]
    first = [edit("a", n, faults=faults[n]) for n in range(12)]
    second = [edit("b", n, faults=faults[n], state="filtered" if n < 6 else "done") for n in range(12)]
    second[11] = _item("b-11", 11, "edit", None, edit_type="background", state="failed", code="no-answer")
    found = compared([ended("a", first), ended("b", second)], seed=0)
    faulty, kept = difference(found, "faulty edits"), difference(found, "kept")
    assert (faulty.difference.estimate, faulty.difference.n, faulty.left_out) == (0.0, 5, 7)
    assert (kept.difference.n, kept.left_out) == (11, 1)
    page = found.to_html()
    assert "<td>faulty edits, of those that both kept</td>" in page
    assert "<td>5</td><td>7</td>" in page
    assert "n=5), equal in all 5, p 1, 7 left out" in str(found)


def test_faults_of_edits_are_compared_between_presets_of_one_region() -> None:
    # One image gets no fault without a region, and `leaked` with one: no difference of the editors.
    regions: dict[str, RegionOfEdits | None] = {
        "quick": None,
        "words": "words",
        "behind": "background",
        "object": "object",
        "also": "background",
    }
    runs = [
        ended(
            name,
            [edit(name, n, faults=["leaked"] if region in OF_MASKS else []) for n in range(12)],
            region=region,
        )
        for name, region in regions.items()
    ]
    found = compared(runs, seed=0)
    faulty = [(each.first, each.second) for each in found.differences if each.figure == "faulty edits"]
    assert faulty == [("quick", "words"), ("behind", "also")]
    assert len([each for each in found.differences if each.figure == "kept"]) == 10
    assert [row.region for row in found.editors] == list(regions.values())
    assert found.request == {"seed": 3}
    assert compared(runs[2::2], seed=0).request == {"seed": 3, "region": "background"}
    page = found.to_html()
    assert "No difference between 5 editors is proven" in page
    assert "<b>behind</b><br><small>region: background</small>" in page


def test_reconstructions_are_compared_by_source() -> None:
    runs = [
        ended(name, [edit(name, n) for n in range(4)] + [redrawn(name, n, base + n) for n in range(4)], 8.0)
        for name, base in (("a", 30.0), ("b", 28.0))
    ]
    found = compared(runs, seed=0)
    psnr = difference(found, "reconstruction PSNR in dB")
    assert psnr.difference.estimate == pytest.approx(2.0)
    # All agree, so the interval is the bound on those that would differ, by all that PSNRs can.
    assert psnr.difference.low == pytest.approx(2.0 - (1 - 0.025**0.25) * (2.0 + 100.0))
    assert found.editors[0].reconstruction_db.estimate == pytest.approx(31.5)
    assert found.editors[0].seconds_an_item == 1.0


def test_a_difference_that_all_sources_share_is_said_to_be_equal() -> None:
    # The differences of a and b are equal but for rounding.
    levels = {"a": [30.3, 30.2, 60.3], "b": [30.1, 30.0, 60.1], "c": [30.1, 30.0, 61.1]}
    runs = [ended(name, [redrawn(name, n, db) for n, db in enumerate(each)]) for name, each in levels.items()]
    found = compared(runs, seed=0)
    psnr = {each.second: each for each in found.differences if "PSNR" in each.figure and each.first == "a"}
    assert [psnr["b"].equal, psnr["c"].equal] == [True, False]
    assert psnr["b"].difference.low == pytest.approx(0.2 - (1 - 0.025 ** (1 / 3)) * 100.2)
    assert "a less b" in str(found)
    assert str(found).count(", equal in all 3, p") == found.to_html().count("equal in all sources")
    assert 0 < str(found).count(", equal in all 3") < len(found.differences)


def test_the_page_says_why_an_editor_has_no_psnr() -> None:
    first = [edit("a", 0), redrawn("a", 0, 30.0)]
    itself = redrawn("b", 0, 0.0)
    assert itself.result is not None
    second = [
        edit("b", 0),
        itself.model_copy(update={"result": itself.result.model_copy(update={"psnr_db": None})}),
    ]
    page = compared([ended("a", first), ended("b", second)], seed=0).to_html()
    assert page.count("<td>no reconstruction</td>") == 1
    assert "An editor that does not reconstruct, such as a server's, has no PSNR" in " ".join(page.split())


def test_seconds_are_of_all_items_for_which_the_editor_made_images() -> None:
    placebo = edit("a", 1).model_copy(update={"kind": "placebo"})
    operation = edit("a", 2).model_copy(update={"kind": "transforms"})
    found = compared(
        [ended("a", [edit("a", 0), redrawn("a", 0, 30.0), placebo, operation], 6.0), ended("b", [])], seed=0
    )
    assert [(row.items, row.seconds_an_item) for row in found.editors] == [(3, 2.0), (0, None)]
    page = found.to_html()
    assert "2.00 <small>n=3</small>" in page
    assert "seconds an item" in page


def test_p_is_corrected_over_all_editors_and_figures() -> None:
    runs = [
        ended(name, [edit(name, n, state="done" if keep else "filtered") for n in range(8)])
        for name, keep in (("a", True), ("b", False), ("c", True))
    ]
    found = compared(runs, seed=0)
    kept = [each for each in found.differences if each.figure == "kept"]
    assert [(each.first, each.second) for each in kept] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [each.p for each in kept] == [2 / 2**8, 1.0, 2 / 2**8]
    assert kept[0].p_adjusted == pytest.approx(len(found.differences) * 2 / 2**8)


def test_the_worst_pairs_have_the_most_faults_and_different_sources() -> None:
    faults: dict[int, list[Fault]] = {1: ["moved"], 4: ["moved", "scaled"]}
    first = [edit("a", n, slot, faults=faults.get(n, [])) for n in range(6) for slot in range(2)]
    second = [edit("b", n, slot, direction=0.1 if n == 5 else 0.5) for n in range(6) for slot in range(2)]
    found = compared([ended("a", first), ended("b", second)], seed=0)
    assert [pair.source for pair in found.worst] == [ref("source", n) for n in (4, 1, 5)]
    worst = found.worst[0].edits
    assert [each.preset for each in worst] == ["a", "b"]
    assert worst[0].said == "kept; moved, scaled"
    assert set(refs_of(found)) >= {ref("source", 4), ref("a", 4, 0), ref("map", "a", 4)}
    assert len(refs_of(found)) == len(set(refs_of(found)))


def test_an_image_that_the_run_dropped_as_objectionable_is_not_shown() -> None:
    dropped = edit("b", 0, state="filtered", reason=OBJECTIONABLE)
    found = compared([ended("a", [edit("a", 0)]), ended("b", [dropped])], seed=0)
    assert WITHHELD == OBJECTIONABLE
    assert set(refs_of(found)) == {ref("source", 0), ref("a", 0, 0), ref("map", "a", 0)}
    assert found.worst[0].edits[1].said.startswith("dropped: objectionable")
    assert "dropped: objectionable" in found.to_html()


def test_the_page_has_every_figure_and_escapes_what_others_wrote() -> None:
    first = [edit("<a>", n, words="a <b>bus</b>") for n in range(8)]
    second = [edit("b", n, words="a <b>bus</b>", state="filtered", reason="gate-direction") for n in range(8)]
    found = compared([ended("<a>", first), ended("b", second)], seed=3)
    page = found.model_copy(update={"images": {ref("source", 0): "QUJD"}}).to_html()
    assert "<b>bus</b>" not in page
    assert "a &lt;b&gt;bus&lt;/b&gt;" in page
    assert "data:image/png;base64,QUJD" in page
    assert "gate-direction 2" in page
    assert "differences are proven. kept: &lt;a&gt; less b 1.000" in page
    assert "dropped: gate-direction" in page
    assert "<script" not in page
    assert "http" not in page


def test_no_difference_is_said_to_be_none_that_is_proven() -> None:
    found = compared([ended(name, [edit(name, 0)]) for name in ("a", "b")], seed=0)
    assert "No difference between 2 editors is proven" in found.to_html()
    assert "kept: a less b" in str(found)


@pytest.mark.parametrize("presets", [[], ["quick"], ["quick", "quick"]])
def test_fewer_than_two_presets_or_one_twice_are_refused(presets: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="at least two presets, each once"):
        distinct_presets(presets)
