"""The audit of a run, by the SDK over the real routes: green as it is, and red for each damage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from counterpose import AsyncClient, AsyncStressTest
from counterpose_core.blobs import BlobStore
from counterpose_core.content_address import blob_name
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.images import png
from fakes.gateway import FakeGateway, fake_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"],
                        "seed": 3, "max_edits_per_image": 1}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A gateway with a run that has ended, the run, and the folder of the store."""

    gateway: FakeGateway
    run: AsyncStressTest
    store: Path

    async def violated(self) -> dict[str, int]:
        """The invariants that an audit with the store finds violated, and how often each."""
        found = (await self.run.audit(self.store)).violations
        return {name: sum(each.invariant == name for each in found) for name in {v.invariant for v in found}}

    @contextmanager
    def altered(self, do: str, undo: str) -> Iterator[None]:
        """Alter the ledger behind its back during the block."""
        self._execute(do)
        try:
            yield
        finally:
            self._execute(undo)

    def _execute(self, statement: str) -> None:
        with self.gateway.ledger._session.database.writing() as connection:
            connection.execute(text(statement))

    def first_image(self) -> Path:
        """The file of an image that the run made."""
        made = [item.result for item in self.gateway.ledger.items.all(self.run.id) if item.result is not None]
        return self.store / blob_name(made[-1].image)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ended]:
    folder = tmp_path_factory.mktemp("ended")
    store = folder / "store"
    async with fake_gateway(folder, store=BlobStore(str(store))) as gateway:
        await gateway.upload("demo", 1)
        run = await AsyncClient(http=gateway.http).stress_tests.create(**BODY)
        with pytest.raises(InvalidRequest, match="wait until it has ended"):
            await run.audit()
        await gateway.worker().work_off()
        yield Ended(gateway, await run.wait(), store)


async def test_a_run_that_ended_well_keeps_every_invariant(ended: Ended) -> None:
    found = await ended.run.audit(ended.store)
    assert found.violations == []
    assert found.items == ended.run.run.request_counts.total > 0
    assert found.images > 0
    assert found.stored == found.images
    assert found.events > found.items


async def test_without_the_store_the_gateway_alone_is_asked(ended: Ended) -> None:
    found = await ended.run.audit()
    assert (found.violations, found.stored) == ([], None)


async def test_a_folder_without_blobs_is_no_store(ended: Ended, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="not the folder of a store"):
        await ended.run.audit(tmp_path)


async def test_counters_that_are_not_those_of_the_items_are_found(ended: Ended) -> None:
    with ended.altered(
        "UPDATE runs SET done = done - 1, failed = failed + 1",
        "UPDATE runs SET done = done + 1, failed = failed - 1",
    ):
        assert await ended.violated() == {"accounting": 2}


async def test_an_item_that_is_open_in_an_ended_run_is_found(ended: Ended) -> None:
    with ended.altered(
        "UPDATE items SET state = 'leased' WHERE ordinal = 0",
        "UPDATE items SET state = 'done' WHERE ordinal = 0",
    ):
        assert (await ended.violated())["accounting"] == 2


async def test_an_item_that_is_missing_is_found(ended: Ended) -> None:
    with ended.altered(
        "UPDATE items SET stage = 2 WHERE ordinal = 1", "UPDATE items SET stage = 1 WHERE ordinal = 1"
    ):
        assert (await ended.violated()).keys() == {"accounting", "exactly-once"}


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    "damage", [lambda file: file.unlink(), lambda file: file.write_bytes(file.read_bytes()[:-1])],
    ids=["deleted", "cut"],
)  # fmt: skip
async def test_an_image_that_is_not_in_the_store_is_found(
    ended: Ended, damage: Callable[[Path], None]
) -> None:
    file = ended.first_image()
    kept = file.read_bytes()
    damage(file)
    try:
        assert await ended.violated() == {"artifact-before-row": 1}
    finally:
        file.write_bytes(kept)


@pytest.mark.fault("T20")
async def test_an_image_without_its_mark_is_found(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "synthetic_marks", lambda *_, **__: {})
    found = await ended.run.audit()
    assert {each.invariant for each in found.violations} == {"marked"}
    assert len(found.violations) == found.images
