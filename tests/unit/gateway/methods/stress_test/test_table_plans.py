"""Plans made from a compact table are those that were made from lists of sources, key by key and in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import digest
from counterpose_core.contract.datasets import Source
from counterpose_core.errors import ClassMapMismatch, InvalidRequest
from counterpose_gateway.methods.stress_test import division
from counterpose_gateway.methods.stress_test.division import divide
from counterpose_gateway.methods.stress_test.groups import group_sources
from counterpose_gateway.methods.stress_test.plan import choose_sources, leave_out
from counterpose_gateway.records.source_table import PAGE, SourceTable
from counterpose_gateway.records.sources import NewSource
from fakes.ledgers import new_ledger
from fakes.list_plans import chosen_of, divided_of, grouped_of
from fakes.ports import fake_services
from fakes.runs import stress_test_request
from fakes.world import FakeWorld

CLASSES = ["boat", "kite", "plate", "sled"]


def random_sources(seed: int) -> list[Source]:
    """Some hundred sources of uneven classes, some in groups that classes share names of, some alike."""
    draw = np.random.default_rng(seed)
    n, classes = int(draw.integers(1, 400)), CLASSES[: int(draw.integers(1, 5))]
    images = int(draw.choice([10_000, 200, 20]))
    groups = int(draw.choice([0, 5, 60]))
    found = []
    for number in range(n):
        named = groups and draw.random() < 0.5
        found.append(
            Source(
                id=digest(f"{seed} {number}".encode()),
                image=digest(f"image {draw.integers(images)}".encode()),
                label=str(draw.choice(classes, p=weights(len(classes)))),
                filename=f"{number}.png",
                caption=f"caption {number}" if draw.random() < 0.3 else None,
                group=f"group-{draw.integers(groups)}" if named else None,
                width=8,
                height=8,
            )
        )
    return found


def weights(n: int) -> np.ndarray:
    uneven = np.arange(1, n + 1, dtype=float)
    return np.asarray(uneven / uneven.sum())


def ids(table: SourceTable) -> list[str]:
    return [source.id for source in table]


@pytest.mark.parametrize("seed", range(40))
async def test_choice_groups_and_division_are_those_of_lists(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that classes have more than are kept.
    monkeypatch.setattr(division, "MOST_FRESH", 15)
    monkeypatch.setattr("fakes.list_plans.MOST_FRESH", 15)
    sources = random_sources(seed)
    draw = np.random.default_rng(seed)
    limit = None if seed % 3 else int(draw.integers(1, len(sources) + 5))
    share, redraws = float(draw.choice([0.3, 0.5, 0.9])), bool(seed % 2)
    create = stress_test_request(confirm_share=share, seed=seed, limit=limit)
    before = (
        {one.id: f"known-{draw.integers(4)}" for one in sources if draw.random() < 0.1} if seed % 4 else {}
    )

    wanted = chosen_of(sources, CLASSES, limit)
    found = choose_sources(SourceTable.of(sources), CLASSES, limit)
    assert ids(found) == [source.id for source in wanted]
    wanted, wanted_grouping = grouped_of(wanted, before)
    found, grouping = await group_sources(create, found, fake_services(FakeWorld()), known=before)
    assert grouping == wanted_grouping
    assert [each.group for each in found] == [source.group for source in wanted]
    divided = divide(create, found, redraws=redraws)
    assert divided.plan is not None
    if divided.plan.reason is None:
        assert (ids(divided.screened), ids(divided.fresh)) == divided_of(create, wanted, redraws=redraws)
    else:
        assert (ids(divided.screened), len(divided.fresh)) == (ids(found), 0)


def test_most_of_those_plans_have_two_stages() -> None:
    plans = [
        divide(
            stress_test_request(seed=seed), SourceTable.of(random_sources(seed)), redraws=bool(seed % 2)
        ).plan
        for seed in range(40)
    ]
    assert sum(plan is not None and plan.reason is None for plan in plans) > 20


def in_ledger(folder: Path, sources: Sequence[Source]) -> SourceTable:
    """The same sources as the ledger reads them, in pages."""
    ledger = new_ledger(folder)
    ledger.datasets.create("demo", None)
    fields = ("image", "label", "filename", "caption", "width", "height", "group")
    ledger.datasets.add(
        "demo", [NewSource(**{name: getattr(one, name) for name in fields}) for one in sources]
    )
    table = ledger.datasets.table("demo")
    assert ids(table) == [one.id for one in ledger.datasets.sources("demo")]
    assert ids(ledger.datasets.table("demo", most=3)) == ids(table)[:3]
    return table


def test_a_ledger_reads_the_same_table_with_captions_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpose_gateway.ledger.datasets.sources._READ_AT_ONCE", 64)
    sources = [random_sources(1), random_sources(2), random_sources(3)]
    every = [one for some in sources for one in some]
    assert len(every) > PAGE
    table = in_ledger(tmp_path, every)
    told = [(each.image, each.label, each.group, each.caption) for each in table]
    assert told == [(one.image, one.label, one.group, one.caption) for one in every]
    assert list(table.details.filenames()) == [one.filename for one in every]
    reversed_table = table.take(np.arange(len(table))[::-1])
    assert [each.caption for each in reversed_table.rows(7)] == [one.caption for one in every[::-1]][7:]


def test_names_to_leave_out_are_ids_file_names_or_names_below_a_class() -> None:
    world = FakeWorld()
    sources = [world.source("sled", 1), world.source("boat", 1), world.source("boat", 2)]
    same = [one.model_copy(update={"filename": "1.png"}) for one in sources[:2]]
    table = SourceTable.of([*same, sources[2]])
    left, out = leave_out(table, ["sled/1.png", "boat-2"])
    assert (ids(left), out) == (["boat-1"], ["boat-2", "sled-1"])
    with pytest.raises(InvalidRequest, match=r"several classes.*'1\.png'"):
        leave_out(table, ["1.png"])
    with pytest.raises(InvalidRequest, match="no image named 'nothing'"):
        leave_out(table, ["nothing"])


def test_a_label_that_is_no_class_is_named_with_its_file(tmp_path: Path) -> None:
    table = in_ledger(tmp_path, random_sources(4))
    with pytest.raises(ClassMapMismatch, match=r"'\d+\.png' has the label"):
        choose_sources(table, CLASSES[:1], None)


def test_a_digest_that_ends_in_zeros_is_read_back_whole() -> None:
    source = FakeWorld().source("sled", 1).model_copy(update={"id": "ab" + "00" * 31, "image": "0" * 64})
    (found,) = SourceTable.of([source])
    assert (found.id, found.image) == (source.id, source.image)
