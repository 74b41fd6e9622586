"""Unreadable images of a searched folder: named in the summary, in its notes and in the report."""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape
from typing import Any

import numpy as np
import pytest

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import RetrievalManifest
from counterpose_core.errors import StorageError, UnknownDataset
from counterpose_gateway.methods.shift_benchmark.images import UnreadableImages, store_unreadable
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from fakes.recorded_benchmarks import Benchmark, recorded_config
from fakes.store import FakeStore

LOST = {f"{number:064x}": "image-undecodable" for number in range(7)} | {"f" * 64: "artifact-missing"}
NAMES = {ref: f"{number}.png" for number, ref in enumerate(LOST)}


def file_names(dataset: str) -> Mapping[str, str]:
    assert dataset == "folder"
    return NAMES


def searched(*lists: str | None) -> Benchmark:
    """A benchmark by retrieval whose images name ``lists`` in turn, and one by token."""
    config = recorded_config(image_sources=["retrieval", "token"], retrieval="folder")
    manifest = RetrievalManifest(digest="d" * 64, images="e" * 64, count=300)
    made = Benchmark(config.model_copy(update={"retrieval": manifest}))
    made.image_source("retrieval", np.ones((3, 2, 8, 3), dtype=np.bool_))
    for index, item in enumerate(made.items):
        assert item.result is not None
        told = item.result.model_copy(update={"unsearched": lists[index % len(lists)]})
        made.items[index] = item.model_copy(update={"result": told})
    made.image_source("token", np.ones((3, 2, 8, 3), dtype=np.bool_))
    return made


def summed_up(made: Benchmark, store: FakeStore, names: Any = file_names) -> ShiftBenchmarkSummary:
    return summarize(made.run, made.columns, folder=UnreadableImages(store.get, names))


def unsearched_notes(summary: ShiftBenchmarkSummary) -> list[str]:
    return [note for note in summary.notes if "not searched" in note]


def test_unreadable_images_are_counted_and_named_with_reasons() -> None:
    store = FakeStore()
    summary = summed_up(searched(store_unreadable(LOST, store)), store)
    found = summary.image_sources["retrieval"].unsearched
    assert found is not None
    assert (found.count, found.images) == (8, 300)
    assert found.reasons == {"artifact-missing": 1, "image-undecodable": 7}
    assert [each.filename for each in found.first] == [f"{number}.png" for number in range(6)]
    assert found.first[0].image in LOST
    assert summary.image_sources["token"].unsearched is None
    assert unsearched_notes(summary) == [
        "8 of 300 images of 'folder' were not searched because they could not be read (artifact-missing: 1, "
        "image-undecodable: 7): 0.png, 1.png, 2.png, 3.png, 4.png, 5.png and 2 more"
    ]
    assert unsearched_notes(summary)[0] in str(summary)


def test_the_report_includes_the_note() -> None:
    store = FakeStore()
    made = searched(store_unreadable(LOST, store))
    summary = summed_up(made, store)
    (note,) = unsearched_notes(summary)
    assert note in unescape(render(summary, made.run, [], store.get))


def test_a_fully_searched_folder_has_no_note() -> None:
    store = FakeStore()
    assert store_unreadable({}, store) is None
    made = searched(None)
    summary = summed_up(made, store)
    assert summary.image_sources["retrieval"].unsearched is None
    assert unsearched_notes(summary) == []


def test_lists_of_several_searches_are_merged() -> None:
    store = FakeStore()
    first, *rest = LOST.items()
    lists = [store_unreadable(dict([first]), store), store_unreadable(dict([first, rest[0]]), store), None]
    found = summed_up(searched(*lists), store).image_sources["retrieval"].unsearched
    assert found is not None
    assert found.count == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_a_deleted_dataset_leaves_references_instead_of_names(is_there: bool) -> None:
    def nowhere(dataset: str) -> Mapping[str, str]:
        if is_there:
            return {}
        raise UnknownDataset(f"there is no dataset {dataset!r}")

    store = FakeStore()
    summary = summed_up(searched(store_unreadable({"f" * 64: "image-undecodable"}, store)), store, nowhere)
    assert unsearched_notes(summary)[0].endswith("(image-undecodable: 1): ffffffffffff")


def test_a_missing_or_unread_list_is_reported_as_unknown() -> None:
    store = FakeStore()
    made = searched(store_unreadable(LOST, store))
    store.blobs.clear()
    for summary in (summed_up(made, store), summarize(made.run, made.columns)):
        assert summary.image_sources["retrieval"].unsearched is None
        assert "cannot be read" in unsearched_notes(summary)[0]


def test_a_failing_store_is_not_treated_as_a_missing_list() -> None:
    def failing(ref: str) -> bytes:
        raise StorageError(f"{ref!r} cannot be read now")

    made = searched(store_unreadable(LOST, FakeStore()))
    with pytest.raises(StorageError, match="now"):
        summarize(made.run, made.columns, folder=UnreadableImages(failing, file_names))
