"""The store's budget: kept by the gateway, told by metrics and services, on local disks alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import httpx
import pytest

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.services import ServiceList, StoreUse
from counterpose_gateway.app import create_app
from counterpose_gateway.settings import GatewaySettings, settings_from
from counterpose_gateway.store.budget import StoreBudget
from fakes.gateway import URL, FakeHealth
from fakes.ledgers import new_ledger
from fakes.ports import fake_services
from fakes.world import FakeWorld, fake_suite

FILE = 1064


def kept(tmp_path: Path, number: int) -> BlobStore:
    """A store that keeps so many inversions of 1000 bytes."""
    store = BlobStore(str(tmp_path / "store"))
    for each in range(number):
        store.keep("inversion", cache_key(number=each), b"x" * 1000)
    return store


def found(store: BlobStore, number: int) -> int:
    """How many of the first inversions there still are."""
    return sum(store.find("inversion", cache_key(number=each)) is not None for each in range(number))


async def test_the_gateway_tells_what_is_kept_and_what_was_evicted(tmp_path: Path) -> None:
    store = kept(tmp_path, 5)
    budget = StoreBudget(store, 2 * FILE, recent_seconds=0)
    budget.look()
    ledger = new_ledger(tmp_path)
    app = create_app(
        GatewaySettings(), ledger=ledger, store=store, services=fake_services(FakeWorld()),
        suite=fake_suite(), health=FakeHealth(), budget=budget,
    )  # fmt: skip
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=URL) as http:
        listed = ServiceList.model_validate_json((await http.get("/v1/services")).content)
        series = (await http.get("/metrics")).text
    ledger.close()
    assert listed.store == StoreUse(
        budget_bytes=2 * FILE, derived_bytes=2 * FILE, evictions=3, evicted_bytes=3 * FILE
    )
    assert f"counterpose_store_derived_bytes {2.0 * FILE}" in series
    assert "counterpose_store_evictions_total 3.0" in series
    assert f"counterpose_store_evicted_bytes_total {3.0 * FILE}" in series


async def test_the_budget_is_kept_while_the_gateway_runs_and_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = kept(tmp_path, 5)
    budget = StoreBudget(store, 2 * FILE, recent_seconds=0)
    monkeypatch.setattr("counterpose_gateway.store.budget.LOOK_SECONDS", 0.01)
    looks, looked = 0, threading.Event()
    look = budget.look

    def fails_first() -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise PermissionError("no access")
        look()
        looked.set()

    monkeypatch.setattr(budget, "look", fails_first)
    keeping = asyncio.create_task(budget.keep())
    assert await asyncio.to_thread(looked.wait, 100)
    keeping.cancel()
    assert found(store, 5) == 2
    assert "the store's budget cannot be kept now" in caplog.text


async def test_a_store_elsewhere_is_left_alone_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = BlobStore(f"memory://{tmp_path}")
    store.keep("inversion", cache_key(number=0), b"x")
    with caplog.at_level(logging.WARNING):
        budget = StoreBudget(store, 0, recent_seconds=0)
    await budget.keep()
    budget.look()
    assert (budget.use, found(store, 1)) == (None, 1)
    assert "is not on a local disk; let the rules of that store expire what lies under" in caplog.text


@pytest.mark.parametrize(
    ("environ", "budget"), [({}, 50_000_000_000), ({"COUNTERPOSE_STORE_BUDGET_BYTES": "7"}, 7)]
)
def test_the_setting_is_read_from_the_environment(environ: dict[str, str], budget: int) -> None:
    assert settings_from(environ).store_budget_bytes == budget
