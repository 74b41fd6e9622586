"""The load groups measure real ledgers and gateways: tried on SQLite with the smallest sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.load import fleets, hunt_pace, hunts, leases, ledger, pipeline, recorded_hunts, submissions
from evaluation.load.fleet import fleet
from evaluation.load.measuring import Load
from evaluation.load.report import Growth, LoadRow
from fakes.postgres import can_run_postgres


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    for group in (leases, ledger, submissions):
        monkeypatch.setattr(group, "DATABASES", ("SQLite",))
    monkeypatch.setattr(leases, "REPEATS", 3)
    monkeypatch.setattr(ledger, "QUICK_SECONDS", 0.1)
    monkeypatch.setattr(submissions, "QUICK", (0.1, 5))
    monkeypatch.setattr(submissions, "CALLERS", (1, 3))
    monkeypatch.setattr(submissions, "READS", 2)
    monkeypatch.setattr(pipeline, "ITEM_SECONDS", 0.005)
    monkeypatch.setattr(pipeline, "REPEATS", 1)
    monkeypatch.setattr(hunt_pace, "IMAGE_SECONDS", 0.004)
    monkeypatch.setattr(hunt_pace, "CLASSIFY_SECONDS", 0.002)
    monkeypatch.setattr(hunts, "READS_QUICK", 5)
    small = {"labels": ["plate"], "budget": {"images": 150}, "held_out": 16, "winners": 1, "hypotheses": 2}
    monkeypatch.setattr(recorded_hunts, "BODY", recorded_hunts.BODY | small)
    monkeypatch.setattr(hunt_pace, "SEARCH", hunt_pace.SEARCH | small)
    return Load(tmp_path, quick=True)


def test_leases_are_compared_over_sizes(load: Load) -> None:
    found = list(leases.measure(load))
    grown = [each for each in found if isinstance(each, Growth)]
    assert [[size for size, _ in each.points] for each in grown] == [[1_000, 10_000], [1, 100]]
    compared = [each for each in found if isinstance(each, LoadRow) and each.target is not None]
    assert [(each.unit, each.target) for each in compared] == [("times", 2.0)] * 2
    assert all(each.value > 0 for each in compared)


def test_sixteen_hands_record_items_beside_bare_commits(load: Load) -> None:
    found = list(ledger.measure(load))
    assert [each.unit for each in found] == ["items/s", "commits/s"] * 2
    assert [each.target for each in found if each.unit == "items/s"] == [300.0, 300.0]
    assert all(each.value > 0 for each in found)


def test_every_number_of_callers_submits_with_and_without_a_queue(load: Load) -> None:
    found = [each for each in submissions.measure(load) if each.meets == ("L2",)]
    assert [each.unit for each in found] == ["runs/s", "ms"] * 4
    assert {each.n >= 1 for each in found} == {True}
    assert "3 at once, 5 queued before" in found[-1].name


def test_a_pipeline_is_measured_free_with_work_and_shared(load: Load) -> None:
    found = list(pipeline.measure(load))
    assert [each.meets for each in found] == [("L3",)] * 2 + [("L4",)] * 2 + [("L7",)] * 2
    assert [each.target for each in found] == [8.0, 60.0, 1.05, None, 3.0, 3.0]
    assert all(each.value > 0 for each in found)


def test_a_hunt_is_read_summed_up_and_drawn_beside_its_generator(load: Load) -> None:
    found = list(hunts.hunts(load))
    grown = [each for each in found if isinstance(each, Growth)]
    assert [[size for size, _ in each.points] for each in grown] == [[1_000]] * 2
    rows = [each for each in found if isinstance(each, LoadRow)]
    assert [(each.unit, each.target) for each in rows] == [
        ("s", 5.0), ("MB", None), ("ms", 50.0), ("ms", 50.0), ("s", 5.0), ("/s", None), ("", 0.9), ("", 0.9),
    ]  # fmt: skip
    assert all(each.value > 0 for each in rows)
    assert [each.n for each in rows[-2:]] == [48, rows[-1].n]
    assert all(each.value < 1.0 for each in rows[-2:])


@pytest.mark.skipif(not can_run_postgres(), reason="PostgreSQL is not installed")
def test_a_fleet_loses_nothing_when_its_workers_are_killed(tmp_path: Path) -> None:
    with fleet(tmp_path, lease_seconds=2) as started:
        found = [each for each in fleets._killed(started, 1, 30) if isinstance(each, LoadRow)]
    books = {each.name.partition("half-way: ")[2]: each for each in found}
    assert [books[name].value for name in ("lost", "recorded twice", "findings of the audit")] == [0, 0, 0]
    assert books["done again"].met
