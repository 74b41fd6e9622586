"""Columns of recorded images: laid out as their documents are, for benchmarks drawn at random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.methods.shift_benchmark.columns import ImageColumns, Reading
from counterpose_gateway.methods.shift_benchmark.evidence import ImageSourceEvidence, RealEvidence
from counterpose_gateway.records.recorded_items import RecordedItem
from fakes.benchmark_documents import lay_out
from fakes.recorded_benchmarks import Benchmark
from fakes.varied_benchmarks import ALL, varied_benchmark

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_are_laid_out_as_documents(seed: int) -> None:
    made = varied_benchmark(seed)
    columns = made.columns
    for image_source in ALL:
        found = ImageSourceEvidence.of(image_source, columns, made.config)
        known = lay_out(made.items, image_source, made.config)
        for name in ("made", "to_object", "to_shift", "right"):
            np.testing.assert_array_equal(getattr(found, name), getattr(known, name), name)
        whole = known.made[..., None] if found.answered is None else found.answered
        np.testing.assert_array_equal(np.broadcast_to(whole, known.answered.shape), known.answered)
        units = np.arange(known.made.shape[2]) if found.units is None else found.units
        np.testing.assert_array_equal(np.broadcast_to(units, known.units.shape), known.units)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_item_is_counted_by_its_end(seed: int) -> None:
    made = varied_benchmark(seed)
    columns = made.columns
    for image_source in ALL:
        ends = ImageSourceEvidence.of(image_source, columns, made.config).ends
        known = Counter(
            (Cell.of(item.item_group).condition_name(made.config), item.reason or item.state)
            for item in made.items
            if Cell.of(item.item_group).image_source == image_source
        )
        assert {(name, end): n for name, each in ends.items() for end, n in each.items()} == known


@pytest.mark.parametrize("seed", SEEDS)
def test_real_images_have_their_similarities_and_answers(seed: int) -> None:
    made = varied_benchmark(seed)
    real = RealEvidence.of(made.columns, made.config)
    done = [each.result for each in made.items if each.state == "done" and ".real." in each.item_group]
    results = [each for each in done if each is not None]
    assert sorted(np.concatenate(list(real.similarities(photo=True).values()))) == sorted(
        each.object_similarity for each in results
    )
    assert sorted(np.concatenate(list(real.similarities(photo=False).values()))) == sorted(
        each.plain_similarity for each in results if each.plain_similarity is not None
    )
    known = lay_out(made.items, "real", made.config)
    assert (real.answers is None) == bool(real.without)
    assert real.columns.right(real.rows).sum() == known.right.sum()
    assert real.answers is None or real.answers.values.sum() == known.right.sum()
    assert real.failed == sum(item.state == "failed" and ".real." in item.item_group for item in made.items)


def test_what_images_cost_is_summed_by_image_source() -> None:
    made = varied_benchmark(0)
    for image_source, usage in made.columns.usage.items():
        own = [item.result for item in made.items if f".{image_source}." in item.item_group and item.result]
        known = sum((each.cost for each in own), Cost())
        assert usage.cost.unet_evaluations == known.unet_evaluations
        assert usage.cost.seconds == pytest.approx(known.seconds, rel=1e-12)


def old_documents(made: Benchmark) -> ImageColumns:
    """The columns of what an early version would have recorded, without any field that has a default."""
    reading = Reading(made.config.request.classifiers, made.config.groups)
    for item in made.items:
        result: Any = item.result and item.result.model_dump(mode="json", exclude_defaults=True)
        reading.add(RecordedItem.of(item)._replace(result=result))
    return reading.columns()


def test_results_without_later_fields_are_read() -> None:
    made = varied_benchmark(0)
    bare: list[ImageItem] = []
    for item in made.items:
        dropped = {"predictions": {}, "models": {}, "cost": Cost(), "service_seconds": {}, "unanswered": {}}
        result = item.result and item.result.model_copy(update=dropped)
        bare.append(item.model_copy(update={"result": result}))
    made.items = bare
    found, known = old_documents(made), made.columns
    for name in ("made", "to_object", "to_shift", "told", "state", "group"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name), name)
    assert found.failures.images == known.failures.images


def test_an_image_takes_few_bytes() -> None:
    columns = varied_benchmark(0).columns
    sizes = [each.nbytes for each in vars(columns).values() if isinstance(each, np.ndarray)]
    assert sum(sizes) / len(columns) < 100
