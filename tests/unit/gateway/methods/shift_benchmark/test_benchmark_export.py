"""A benchmark's images as records: kept generated ones, and others only on request."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from counterpose_gateway.exports.export import write_export
from counterpose_gateway.exports.records import Record
from counterpose_gateway.methods.shift_benchmark.export import benchmark_card, benchmark_records
from fakes.exports import exported
from fakes.reported_benchmarks import read_image, reported_benchmark, reported_summary
from fakes.store import FakeStore


def records(**asked: bool) -> list[Record]:
    return list(benchmark_records(reported_summary(), reported_benchmark().items, **asked))


def test_the_export_holds_the_generated_images_that_the_summary_counts() -> None:
    found = records()
    expected = {
        (name, condition): told.counts.kept
        for name in ("token", "class-name")
        for condition, told in {
            "base": reported_summary().image_sources[name].base,
            **reported_summary().image_sources[name].shifts,
        }.items()
    }
    assert Counter((one.image_source, one.shift) for one in found) == Counter(expected)
    assert {one.origin for one in found} == {"generated"}
    assert {one.verdict for one in found} == {"kept"}


def test_retrieved_images_are_exported_on_request_and_not_marked_synthetic() -> None:
    found = [one for one in records(found=True) if one.image_source in ("photographs", "real")]
    assert {one.image_source for one in found} == {"photographs", "real"}
    assert {one.origin for one in found} == {"photograph"}
    assert {(one.seed, one.model, one.bundle) for one in found} == {(None, None, None)}


def test_dropped_images_are_exported_on_request_with_the_failed_criterion() -> None:
    verdicts = {one.verdict for one in records(dropped=True)}
    assert {"kept", "no object", "no shift"} <= verdicts


def test_a_record_holds_everything_needed_to_regenerate_the_image() -> None:
    one = next(one for one in records() if one.image_source == "token" and one.shift == "in the snow")
    assert one.prompt == "A photo of a <class> in the snow"
    assert one.seed is not None
    assert one.seed >= 1000
    assert (one.bundle, one.model, one.run) == ("b" * 64, "sd@" + "c" * 12, "run-1")
    assert {"object_similarity", "shift_similarity", "truth model-0"} <= one.scores.keys()
    assert next(one for one in records() if one.image_source == "class-name").bundle is None


def test_only_generated_images_are_marked(tmp_path: Path) -> None:
    store = FakeStore()
    chosen = [one for one in records(found=True) if one.shift == "base"]
    for one in chosen:
        store.blobs[one.image] = read_image(one.image)
    card = benchmark_card(reported_summary())
    write_export(chosen, tmp_path / "out", layout="imagefolder", store=store, card=card)
    marked = Counter(b"trainedAlgorithmicMedia" in png for png in exported(tmp_path / "out", "imagefolder"))
    origins = Counter(one.origin == "generated" for one in chosen)
    assert marked == origins
    assert origins[False] > 0


def test_the_card_reports_yields_impacts_and_provenance(tmp_path: Path) -> None:
    store = FakeStore()
    chosen = records()[:2]
    for one in chosen:
        store.blobs[one.image] = read_image(one.image)
    card = benchmark_card(reported_summary())
    write_export(chosen, tmp_path / "out", layout="imagefolder", store=store, card=card)
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Shifts of demo" in text
    assert "impact of in the snow by token" in text
    assert "| at night by class-name |" in text
    assert "5th percentile" in text
