"""The command's wiring: what `serve` and `work` open, pass on and close."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from counterpose_core.tracing import Tracing
from counterpose_gateway import main as command
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.main import main
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.services.clients import calling_services
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.worker.worker import Worker


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder with a secret; the process gets its signals and its umask back."""
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    (tmp_path / "secret").write_text("a-secret-of-some-length", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    mask = os.umask(0o022)
    yield tmp_path
    os.umask(mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Ledger]:
    """The ledgers that were closed."""
    ledgers: list[Ledger] = []
    close = Ledger.close

    def noted(ledger: Ledger) -> None:
        ledgers.append(ledger)
        close(ledger)

    monkeypatch.setattr(Ledger, "close", noted)
    return ledgers


def test_serve_opens_its_context_and_closes_it_at_the_end(
    state: Path, closed: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[httpx.Response] = []
    configs: list[uvicorn.Config] = []

    async def serve(server: uvicorn.Server) -> None:
        configs.append(server.config)
        assert isinstance(server.config.app, FastAPI)
        transport = httpx.ASGITransport(app=server.config.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answers.append(await http.get("/healthz"))
            answers.append(await http.get("/v1/datasets"))

    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    assert main(["serve", "--port", "8099"]) == 0
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].json() == {"datasets": []}
    assert (configs[0].host, configs[0].port) == ("127.0.0.1", 8099)
    assert len(closed) == 1
    assert (state / "ledger.db").is_file()


@pytest.mark.fault("F3")
def test_serve_removes_leftovers_of_killed_writers(
    state: Path, closed: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(server: uvicorn.Server) -> None:
        """Stop at once."""

    scratch = state / "store" / "tmp"
    scratch.mkdir(parents=True)
    old, young = scratch / "1-old", scratch / "2-young"
    for path in (old, young):
        path.write_bytes(b"half a pic")
    hours_ago = time.time() - 2 * 3600
    os.utime(old, (hours_ago, hours_ago))
    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    main(["serve"])
    assert (old.exists(), young.exists()) == (False, True)


def test_the_database_is_readable_only_by_its_owner(
    state: Path, closed: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(server: uvicorn.Server) -> None:
        """Stop at once."""

    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    main(["serve"])
    assert (state / "ledger.db").stat().st_mode & 0o077 == 0


def test_serve_waits_less_for_services_than_the_worker(
    closed: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[tuple[float, float | None]] = []

    def noted(
        settings: GatewaySettings,
        tracing: Tracing,
        *,
        absent_seconds: float | None = None,
        accounted: Accounted | None = None,
    ) -> AbstractAsyncContextManager[ServiceCaller]:
        patience.append((settings.patience_seconds, absent_seconds))
        return calling_services(settings, tracing, absent_seconds=absent_seconds, accounted=accounted)

    async def serve(server: uvicorn.Server) -> None:
        """Stop at once."""

    async def work(worker: Worker, stop: asyncio.Event) -> None:
        """Stop at once."""

    monkeypatch.setattr(command, "calling_services", noted)
    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    monkeypatch.setattr(Worker, "work", work)
    main(["serve"])
    main(["work"])
    (served, for_absent), (worked, as_any) = patience
    assert served <= command.SERVE_PATIENCE_SECONDS < worked
    # Whoever calls the gateway repeats a call itself; a worker waits for services that start.
    assert (for_absent, as_any) == (0.0, None)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_work_stops_cleanly_on_request(
    closed: list[Ledger], monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    async def work(worker: Worker, stop: asyncio.Event) -> None:
        os.kill(os.getpid(), sent)
        await asyncio.wait_for(stop.wait(), 100)

    monkeypatch.setattr(Worker, "work", work)
    assert main(["work", "--concurrency", "3"]) == 0
    assert len(closed) == 1


def test_no_two_workers_of_one_machine_have_one_name_even_with_one_process_id(
    closed: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    class Named(Worker):
        """A worker that records its name and does nothing."""

        async def work(self, stop: asyncio.Event) -> None:
            """Record the name."""
            made.append(self._shared.name)

    monkeypatch.setattr(command, "Worker", Named)
    main(["work"])
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    main(["work"])
    # As in a container that starts again.
    main(["work"])
    assert len(set(made)) == 3
    assert [":4711:" in name for name in made] == [False, True, True]


def test_the_openapi_document_goes_to_stdout_if_no_file_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["openapi"]) == 0
    assert json.loads(capsys.readouterr().out)["info"]["title"] == "Counterpose"


def test_the_command_prints_its_usage_without_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert "register-dataset" in capsys.readouterr().err
