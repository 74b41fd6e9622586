"""No address in a request makes the gateway or its services call a server that nobody listed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.errors import CounterposeError
from counterpose_core.suite import ClassifiersSuite
from counterpose_gateway.services.ports import Services
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.problems import problem
from fakes.world import FakeWorld

MODEL = "/v2/models/m"
PORT, NAME = "{port}", "oip:http://{host}:{port}" + MODEL

HOSTS = (
    # Forms of loopback.
    "localhost", "127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f.1", "0x7f000001",
    "0177.0.0.1", "127.0.0.1.", "LOCALHOST", "[::1]", "[::]", "[::ffff:127.0.0.1]",
    # Names that lead there, and addresses of metadata services and private networks.
    "127.0.0.1.nip.io", "localtest.me", "169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]",
    "10.0.0.1", "[::ffff:10.0.0.1]", "100.64.0.1", "192.168.0.1",
    # Hosts that are read in two ways, and letters that are read as others.
    "models.example@127.0.0.1", "127.0.0.1#@models.example", "models.example\\@127.0.0.1", "①②⑦.⓪.⓪.①",
    "127。0。0。1", "models.example%2f@127.0.0.1", "models.example\r\nHost: 127.0.0.1",
)  # fmt: skip
ADDRESSES = (
    *(NAME.replace("{host}", host) for host in HOSTS),
    # The listed host by other schemes, or another port or path of it.
    *(f"oip:{scheme}://127.0.0.1:{PORT}{MODEL}" for scheme in ("gopher", "ftp", "file", "dict", "ws")),
    "oip:file:///etc/passwd", "oip://127.0.0.1:{port}" + MODEL, "http://127.0.0.1:{port}" + MODEL,
    "local:http://127.0.0.1:{port}" + MODEL, "timm:http://127.0.0.1:{port}" + MODEL,
    "oip:https://models.example:{port}" + MODEL + "/../../../", "oip:http://models.example/latest/meta-data",
)  # fmt: skip


class Canary:
    """Counts who connects to a port, on IPv4 and IPv6."""

    def __init__(self) -> None:
        self.calls = 0
        self._servers = [socket.create_server(("127.0.0.1", 0))]
        self.port: int = self._servers[0].getsockname()[1]
        if socket.has_ipv6:
            self._servers.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for server in self._servers:
            threading.Thread(target=self._count, args=(server,), daemon=True).start()

    def _count(self, server: socket.socket) -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return
            self.calls += 1

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    """A server that nobody may call."""
    opened = Canary()
    yield opened
    opened.close()


class RealClassifiers(FakeClassifiers):
    """Asks the engine that a service serves, as the gateway's client would over HTTP."""

    def __init__(self, world: FakeWorld, engine: ClassifiersEngine) -> None:
        super().__init__(world)
        self._engine = engine

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""
        return await asyncio.to_thread(self._engine.classify, request)

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe a classifier."""
        return await asyncio.to_thread(self._engine.describe, request)


def engine(folder: Path, *hosts: str) -> ClassifiersEngine:
    options = ClassifierOptions(oip_hosts=hosts, oip_seconds=0.5)
    registry = ClassifierRegistry(ClassifiersSuite(), folder, BlobStore(str(folder)), options)
    return ClassifiersEngine(registry, cache_bytes=0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder = tmp_path_factory.mktemp("gateway")

    def ports(world: FakeWorld) -> Services:
        asked = engine(folder, "models.example:9000", "127.0.0.1:9000", "models.example")
        return fake_services(world, classifiers=RealClassifiers(world, asked))

    async with fake_gateway(folder, ports=ports) as opened:
        await opened.upload("demo", 1)
        yield opened


@pytest.mark.fault("B48", "T8")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("number", range(len(ADDRESSES)), ids=[repr(each) for each in ADDRESSES])
async def test_no_trick_of_an_address_reaches_a_server_that_is_not_listed(
    gateway: FakeGateway, canary: Canary, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(host: str, *given: Any, **more: Any) -> list[Any]:
        asked.append(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    address = ADDRESSES[number].replace(PORT, str(canary.port))
    before = gateway.ledger.runs.page()
    body = {"dataset": "demo", "classifiers": [address], "seed": 1}
    answer = await gateway.http.post("/v1/stress-tests", json=body)
    code = {404: "unknown-model", 422: "invalid-request"}[answer.status_code]
    problem(answer, answer.status_code, code)
    assert (canary.calls, asked) == (0, [])
    assert gateway.ledger.runs.page() == before


@contextmanager
def redirecting(place: str) -> Iterator[int]:
    """Serve one answer over and over, which leads elsewhere."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                head = f"HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"
                connection.sendall(head.encode())

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.close()


@pytest.mark.fault("B48", "T8")
def test_a_listed_server_leads_nowhere_else_and_no_proxy_is_asked(
    canary: Canary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{canary.port}")
    monkeypatch.setenv("NO_PROXY", "")
    before = canary.calls
    with redirecting(f"http://127.0.0.1:{canary.port}{MODEL}") as port:
        host = f"127.0.0.1:{port}"
        request = ClassifyRequest(classifier=f"oip:http://{host}{MODEL}", images=["a" * 64], classes=["sea"])
        with pytest.raises(CounterposeError) as refused:
            engine(tmp_path, host).classify(request)
    assert refused.value.code in ("bad-backend-output", "unknown-model", "backend-unavailable")
    assert canary.calls == before
