"""``counterpose compare-editors`` and the SDK's method, over a gateway whose services are fakes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from counterpose import AsyncClient, Client
from counterpose._cli.exit_code import ExitCode
from counterpose._editor_comparison import EditorComparison
from counterpose_core.contract.preservation import Preservation, PreservationItem
from counterpose_core.contract.spending import Spent
from counterpose_gateway.ledger.tables import schema
from fakes.command import run
from fakes.served_gateway import ServedGateway, served_gateway

WORDS = ["compare-editors", "demo", "--classifier", "steady", "--limit", "4", "--seed", "2"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway on a socket, whose editor moves what the preset `direct` makes and gives it worse scores."""
    with served_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        opened.call(opened.gateway.upload("demo", 2))
        yield opened


def test_a_command_compares_presets_on_the_same_edits_and_writes_one_page(
    served: ServedGateway, tmp_path: Path
) -> None:
    page = tmp_path / "editors.html"
    with served.working():
        shown = run(
            *WORDS,
            "--preset",
            "quick",
            "--preset",
            "direct",
            "--report",
            str(page),
            "--url",
            served.address,
            "--json",
        )
    assert shown.exit_code == ExitCode.PASSED, shown.output
    found = EditorComparison.model_validate(json.loads(shown.stdout))
    assert [row.preset for row in found.editors] == ["quick", "direct"]
    assert found.unpaired == 0
    assert {each.figure for each in found.differences} >= {"kept", "faulty edits", "faulty controls"}
    assert all(each.difference.n == 4 for each in found.differences if each.figure == "kept")
    for row in found.editors:
        assert f"run {row.run} of {row.preset}" in shown.stderr
        assert row.faulty_edits.n == row.kept.n == 4
        assert row.sources == 4
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") >= 3
    assert "<script" not in text


def test_both_clients_return_the_same_comparison_with_the_runs_that_made_it(served: ServedGateway) -> None:
    asked: dict[str, Any] = {
        "dataset": "demo",
        "classifiers": ["steady"],
        "presets": ["quick", "preview"],
        "limit": 4,
        "seed": 1,
    }
    with served.working():
        with Client(served.address) as client:
            blocking = client.stress_tests.compare_editors(**asked)
            requests = [client.runs.get(row.run).run.resolved_config["request"] for row in blocking.editors]

        async def ask() -> EditorComparison:
            async with AsyncClient(served.address) as asyncio_client:
                return await asyncio_client.stress_tests.compare_editors(**asked)

        awaited = asyncio.run(ask())
    assert [request["preset"] for request in requests] == ["quick", "preview"]
    assert all(
        (each["confirm"], each["preservation"], each["seed"]) == (False, "all", 1) for each in requests
    )
    assert blocking.differences == awaited.differences
    assert blocking.worst[0].caption == awaited.worst[0].caption


def test_what_one_editor_moves_is_a_difference(
    served: ServedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, world = served.gateway.services.scorer, served.gateway.world

    def preserved(item: PreservationItem) -> Preservation:
        # The fakes draw the sweep of `direct` at other strengths than that of `quick`.
        moved = not item.control and world.shown[item.edited].strength not in (0.4, 0.6, 0.8)
        return Preservation(
            control=item.control, faults=["moved"] if moved else [], size_ratio=(1.0, 1.0), map=item.edited
        )

    monkeypatch.setattr(scorer, "preserved", preserved)
    with served.working(), Client(served.address) as client:
        found = client.stress_tests.compare_editors(
            dataset="demo", classifiers=["steady"], presets=["quick", "direct"], seed=5
        )
    (faulty,) = [each for each in found.differences if each.figure == "faulty edits"]
    assert faulty.difference.estimate == -1.0
    assert faulty.p_adjusted < 0.05
    assert "are proven. faulty edits: quick less direct -1.000" in found.to_html()


def test_regions_and_groups_are_those_that_the_runs_recorded(served: ServedGateway) -> None:
    with served.working(), Client(served.address) as client:
        found = client.stress_tests.compare_editors(
            dataset="demo",
            classifiers=["steady"],
            presets=["quick", "direct"],
            region="words",
            near_duplicates=0.001,
        )
        grouping = client.runs.get(found.editors[0].run).run.resolved_config["grouping"]
    assert [row.region for row in found.editors] == ["words", "words"]
    assert found.request["region"] == "words"
    units = {grouping["groups"].get(item, item) for item in grouping["groups"]}
    assert 0 < len(units) < found.editors[0].sources
    for row in found.editors:
        assert row.kept.n == row.sources - len(grouping["groups"]) + len(units)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--preset", "quick"], "at least two presets"),
        (["--preset", "quick", "--preset", "quick"], "at least two presets"),
        (["--preset", "quick", "--preset", "no-such"], "no-such"),
        (["--preset", "quick", "--preset", "lance-region"], "images have no mask"),
        (["--preset", "quick", "--preset", "direct", "--budget-images", "5"], "at most 10 images together"),
        (["--preset", "quick", "--preset", "direct", "--report", "no/such/folder.html"], "cannot write"),
    ],
)
def test_a_mistake_starts_nothing(served: ServedGateway, more: list[str], told: str) -> None:
    before = len(served.gateway.ledger.runs.page(limit=100).runs)
    # A seed of its own: runs of another test would be taken up.
    shown = run(*WORDS[:-1], "3", *more, "--url", served.address)
    assert shown.exit_code == ExitCode.USAGE
    assert told in shown.stderr
    assert len(served.gateway.ledger.runs.page(limit=100).runs) == before


def test_an_interrupted_comparison_goes_on_with_its_runs(served: ServedGateway) -> None:
    words = [*WORDS[:-1], "9", "--preset", "quick", "--preset", "direct", "--url", served.address, "--json"]
    runs = served.gateway.ledger.runs
    held = {each.id for each in runs.page(limit=100).runs}

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Client(served.address) as client:
        # What the command asks; it is interrupted before the second run begins.
        client.stress_tests.compare_editors(
            dataset="demo",
            classifiers=["steady"],
            presets=["quick", "direct"],
            limit=4,
            seed=9,
            outside_suite="stop",
            started=interrupt,
        )
    [first] = [each.id for each in runs.page(limit=100).runs if each.id not in held]
    runs.cancel(first)
    with served.working():
        shown = run(*words)
        again = run(*words)
    assert shown.exit_code == again.exit_code == ExitCode.PASSED, shown.output + again.output
    quick, direct = [row.run for row in EditorComparison.model_validate_json(shown.stdout).editors]
    assert quick == first
    assert runs.get(first).state == "completed"
    assert f"run {first} of quick is taken up" in shown.stderr
    assert "it is cancelled and is resumed" in shown.stderr
    assert f"run {direct} of direct; watch" in shown.stderr
    assert again.stderr.count("is taken up") == 2
    assert again.stdout == shown.stdout
    assert {each.id for each in runs.page(limit=100).runs} - held == {quick, direct}


def test_changed_images_or_another_seed_begin_anew(served: ServedGateway) -> None:
    asked: dict[str, Any] = {"classifiers": ["steady"], "presets": ["quick", "preview"], "limit": 2}
    made: list[str] = []
    served.call(served.gateway.upload("grows", 2))
    with served.working(), Client(served.address) as client:
        for seed, more in ((0, 0), (1, 0), (0, 1)):
            if more:
                served.call(served.gateway.upload("grows", 3))
            found = client.stress_tests.compare_editors(dataset="grows", seed=seed, **asked)
            made += [row.run for row in found.editors]
    assert len(set(made)) == 6


def test_changed_weights_begin_anew_but_not_those_of_classifiers(served: ServedGateway) -> None:
    asked: dict[str, Any] = {
        "classifiers": ["steady"],
        "presets": ["quick", "preview"],
        "limit": 2,
        "seed": 21,
    }
    revisions, made = served.gateway.health.revisions, list[str]()
    try:
        with served.working(), Client(served.address) as client:
            for service, revision in (("editor", "1"), ("classifiers", "2"), ("editor", "2")):
                revisions[service] = revision
                found = client.stress_tests.compare_editors(dataset="demo", **asked)
                made.append(found.editors[0].run)
    finally:
        revisions.clear()
    assert made[0] == made[1] != made[2]


def test_a_run_that_is_being_cancelled_is_awaited_and_resumed(served: ServedGateway) -> None:
    asked: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "presets": ["quick", "preview"],
                             "limit": 4, "seed": 22}  # fmt: skip
    ledger = served.gateway.ledger

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with Client(served.address) as client:
        with pytest.raises(KeyboardInterrupt):
            client.stress_tests.compare_editors(**asked, started=interrupt)
        [first, *_] = ledger.runs.page(limit=1).runs
        with ledger._session.writing() as connection:
            mine = schema.runs.c.id == first.id
            connection.execute(update(schema.runs).where(mine).values(state="cancelling"))
        seen: list[str] = []

        def end(handle: Any) -> None:
            # As the process that cancels it does a moment later.
            seen.append(handle.run.state)
            if handle.id == first.id:
                ledger.runs.go_on()

        with served.working():
            found = client.stress_tests.compare_editors(**asked, taken_up=end)
    assert seen == ["cancelling"]
    assert found.editors[0].run == first.id
    assert ledger.runs.get(first.id).state == "completed"


def test_spending_of_all_runs_is_told_together(served: ServedGateway) -> None:
    ledger, counts = served.gateway.ledger, iter(range(3, 5))

    def spend(handle: Any) -> None:
        number = next(counts)
        ledger.spending.reserve(handle.id, "a" * 32, "editor", Spent(calls=number, images=number))
        ledger.spending.settle(handle.id, "a" * 32, Spent(calls=number, images=number))

    with served.working(), Client(served.address) as client:
        found = client.stress_tests.compare_editors(
            dataset="demo",
            classifiers=["steady"],
            presets=["quick", "preview"],
            limit=2,
            seed=23,
            started=spend,
        )
    assert found.spending is not None
    assert found.spending.services == {"editor": Spent(calls=7, images=7)}
    assert "All runs together:\nservers of others: 7 calls, 7 images" in str(found)
    assert "<p>All runs together; servers of others: 7 calls, 7 images" in found.to_html()
