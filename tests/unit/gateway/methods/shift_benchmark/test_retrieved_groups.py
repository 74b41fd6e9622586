"""Retrieved images that are the same, nearly equal or of one group: one unit in every interval."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from counterpose_core.contract.shift_benchmark_summary import ImageSourceSummary, ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import RetrievalManifest
from counterpose_gateway.methods.shift_benchmark.columns import Retrieved, retrieved_groups
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from counterpose_gateway.summaries.columns import NONE, Codes
from fakes.recorded_benchmarks import Benchmark, recorded_config

CONDITIONS, CLASSES, SEARCHED = 3, 2, 10


def digest(*names: object) -> str:
    return hashlib.sha256(repr(names).encode()).hexdigest()


def found(image: str, alike: str | None = None, label: str = "sled") -> tuple[str, str, str]:
    return label, image, alike or image


@pytest.mark.parametrize(
    ("images", "named", "groups"),
    [
        ([found("a"), found("b")], {}, [None, None]),
        ([found("a"), found("a"), found("b")], {}, [0, 0, None]),
        # The first result of a search is one that another search may find, too.
        ([found("a"), found("b", "a"), found("c", "b")], {}, [0, 0, 0]),
        # Two results alike a third that no item holds.
        ([found("b", "a"), found("c", "a")], {}, [0, 0]),
        ([found("a"), found("b"), found("c")], {"a": "video", "c": "video"}, [0, None, 0]),
        ([found("a"), found("b", "a"), found("c")], {"b": "video", "c": "video"}, [0, 0, 0]),
        # Classes are never compared, so each has units of its own.
        ([found("a"), found("a", label="boat")], {}, [None, None]),
    ],
)
def test_images_that_share_anything_are_one_group(
    images: list[tuple[str, str, str]], named: dict[str, str], groups: list[int | None]
) -> None:
    labels, refs, names = Codes(), Codes(), Codes()
    codes = [
        (labels.add(label), refs.add(image), refs.add(alike), names.add(named.get(image)))
        for label, image, alike in images
    ]
    told = retrieved_groups(Retrieved(*np.array(codes).T)).tolist()
    known = {each: number for number, each in enumerate(dict.fromkeys(each for each in told if each != NONE))}
    assert [None if each == NONE else known[each] for each in told] == groups


def summary_of(copies: int, *, by: str = "alike") -> ShiftBenchmarkSummary:
    """A benchmark by retrieval in which each image has so many copies, its own among them."""
    config = recorded_config(image_sources=["retrieval"], n=SEARCHED * 4, retrieval="folder")
    manifest = RetrievalManifest(digest="d" * 64, images="e" * 64, count=300)
    draws = np.random.default_rng(0)
    right = draws.random((CONDITIONS, CLASSES, SEARCHED, 3)) < 0.5
    made = Benchmark(config.model_copy(update={"retrieval": manifest}))
    made.image_source("retrieval", np.repeat(right, copies, axis=2))
    groups: dict[str, str] = {}
    for index, item in enumerate(made.items):
        assert item.result is not None
        cell, place = item.item_group, item.slot // copies
        first = digest(cell, place, 0)
        image = first if by == "same" else digest(cell, place, item.slot % copies)
        if by == "named":
            groups[image] = f"folder/{cell}/{place}"
        alike = first if by == "alike" and image != first else None
        told = item.result.model_copy(update={"image": image, "alike": alike})
        made.items[index] = item.model_copy(update={"result": told})
    made.config = made.config.model_copy(update={"groups": groups})
    return summarize(made.run, made.columns)


def width(source: ImageSourceSummary) -> float:
    effect = source.shifts["in the snow"].effect
    assert effect is not None
    assert effect.impact.low is not None
    assert effect.impact.high is not None
    return effect.impact.high - effect.impact.low


@pytest.mark.parametrize("by", ["alike", "same", "named"])
def test_copies_of_retrieved_images_make_no_interval_narrower(by: str) -> None:
    single = summary_of(1)
    copied = summary_of(4, by=by)
    one, four = single.image_sources["retrieval"], copied.image_sources["retrieval"]
    effect = four.shifts["in the snow"].effect
    assert effect is not None
    assert effect.impact.n == CLASSES * SEARCHED
    assert width(four) == pytest.approx(width(one), rel=0.1)
    assert not any("count once" in note for note in single.notes)
    total = CONDITIONS * CLASSES * SEARCHED * 4
    assert [note for note in copied.notes if "count once" in note] == [
        f"{total * 3 // 4} of {total} retrieved images count once with another of their class: "
        "they are the same, nearly equal by CLIP, or of one group"
    ]


def test_an_image_that_base_and_shift_share_is_drawn_with_both() -> None:
    """Found by both searches, it is answered alike, so it says nothing of a difference."""
    config = recorded_config(image_sources=["retrieval"], n=12, retrieval="folder")
    right = np.zeros((3, 2, 12, 3), dtype=np.bool_)
    right[:, :, ::2] = True
    widths: list[float] = []
    for shared in (False, True):
        made = Benchmark(config)
        made.image_source("retrieval", right)
        for index, item in enumerate(made.items):
            assert item.result is not None
            name = digest(item.label, item.slot, None if shared else item.item_group)
            told = item.result.model_copy(update={"image": name})
            made.items[index] = item.model_copy(update={"result": told})
        widths.append(width(summarize(made.run, made.columns).image_sources["retrieval"]))
    apart, together = widths
    assert apart > 0.3
    assert together < 0.5 * apart
