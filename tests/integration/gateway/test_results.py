"""Results as JSON lines: finished items in order, closed by a line that says if they are complete."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from counterpose_core.contract.runs import Item
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.progress.following import result_lines
from counterpose_gateway.records.outcomes import Failed, Filtered
from fakes.ledgers import create_run, done, finish_all, lease


def read(ledger: Ledger, run: str, start: int = 0) -> tuple[list[Item], dict[str, Any]]:
    """The items and the trailer, after holding the checksum against the lines."""
    *lines, trailer = result_lines(ledger, run, Item, from_ordinal=start)
    found = json.loads(trailer)
    assert found["sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert found["lines"] == len(lines)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in (*lines, trailer))
    return [Item.model_validate_json(line) for line in lines], found


def test_every_finished_item_has_a_line_and_open_items_have_none(ledger: Ledger) -> None:
    run = create_run(ledger, sources=1, per_source=4)
    first, second, third, _ = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.finish(second.id, second.fence, Filtered(reason="no-edit"))
    ledger.items.finish(third.id, third.fence, Failed(code="image-undecodable", detail="'x' is broken"))
    items, trailer = read(ledger, run)
    assert [item.state for item in items] == ["done", "filtered", "failed"]
    assert trailer["complete"] is False


def test_cancelled_items_are_final_too(ledger: Ledger) -> None:
    run = create_run(ledger, sources=1, per_source=2)
    ledger.runs.cancel(run)
    items, trailer = read(ledger, run)
    assert [item.state for item in items] == ["cancelled"] * 2
    assert trailer["complete"] is True


def test_lines_follow_the_planned_order(ledger: Ledger) -> None:
    run = create_run(ledger, sources=3, per_source=2)
    groups = [lease(ledger) for _ in range(3)]
    for group in reversed(groups):
        for item in reversed(group.items):
            ledger.items.finish(item.id, item.fence, done())
    items, trailer = read(ledger, run)
    assert [item.ordinal for item in items] == list(range(6))
    assert trailer == {"lines": 6, "sha256": trailer["sha256"], "complete": True}


@pytest.mark.fault("F18")
def test_an_interrupted_download_can_be_resumed(ledger: Ledger) -> None:
    run = create_run(ledger, sources=3, per_source=2)
    finish_all(ledger)
    whole, _ = read(ledger, run)
    for start in range(7):
        rest, trailer = read(ledger, run, start)
        assert rest == whole[start:]
        assert trailer["complete"] is True


def test_lines_read_twice_are_equal(ledger: Ledger) -> None:
    run = create_run(ledger, sources=2)
    finish_all(ledger)
    assert list(result_lines(ledger, run, Item, from_ordinal=0)) == list(
        result_lines(ledger, run, Item, from_ordinal=0)
    )


def test_a_run_that_ends_during_the_download_is_marked_incomplete(ledger: Ledger) -> None:
    run = create_run(ledger, sources=1, per_source=2)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    lines = result_lines(ledger, run, Item, from_ordinal=0)
    next(lines)
    ledger.items.finish(second.id, second.fence, done())
    assert json.loads(list(lines)[-1])["complete"] is False


def test_an_empty_run_has_only_a_trailer(ledger: Ledger) -> None:
    items, trailer = read(ledger, create_run(ledger, sources=0))
    assert (items, trailer["complete"]) == ([], True)


def test_an_unknown_run_has_no_results(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        next(result_lines(ledger, "nobody", Item, from_ordinal=0))


@pytest.mark.fault("B59")
@pytest.mark.parametrize("after", [1, 4])
def test_results_that_are_downloaded_while_their_run_is_deleted_do_not_say_complete(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    run = create_run(ledger)
    finish_all(ledger)
    pages = ledger.items.of
    # Pages of two: the run is deleted between them.
    monkeypatch.setattr(ledger.items, "of", lambda *given, **named: pages(*given, **named, chunk=2))
    lines = result_lines(ledger, run, Item, from_ordinal=0)
    got = [next(lines) for _ in range(after)]
    ledger.runs.delete(run)
    got += list(lines)
    trailer = json.loads(got[-1])
    assert trailer["complete"] is False
    assert trailer["lines"] == len(got) - 1 < 9
