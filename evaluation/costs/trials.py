"""One trial: an input is sent, and what it costs is read from the system: seconds, megabytes, refusals."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from evaluation.costs import inputs
from evaluation.load.bare_gateway import ServedGateway, served_gateway

KEY = "a-key-of-thirty-two-letters-here"
PLACES = 40
"""Requests that the gateway serves at once: few, so that few sockets show whether they take places."""
LONGEST_SECONDS = 20.0
RESTING_SECONDS = 0.1
"""Of a processor in half a second."""
GOES_ON = "goes on"
"""What an import has come to that was not over by then."""
MOST_SECONDS, MOST_MEBIBYTES = 2.0, 256.0
_CONNECTIONS = 3 * PLACES
_HEADERS = {"authorization": f"Bearer {KEY}"}


@dataclass(frozen=True)
class Cost:
    """What one input took: of a request the processor's seconds, of all together the memory of a process."""

    trial: str
    strength: float
    requests: int
    sent_bytes: int
    status: str
    seconds: float
    mebibytes: float
    refused: bool
    """Whether a reader with a key was refused meanwhile, or had no answer in ten seconds."""

    @property
    def excess(self) -> float:
        """How many times as much as allowed it took; above 1 it is a finding."""
        return max(self.seconds / MOST_SECONDS, self.mebibytes / MOST_MEBIBYTES, 2.0 * self.refused)

    def row(self) -> dict[str, Any]:
        """Itself, for a line of JSON."""
        return {**asdict(self), "excess": round(self.excess, 3)}


@dataclass(frozen=True)
class Bench:
    """A gateway and a worker over one state folder."""

    gateway: ServedGateway
    worker: ServedGateway
    folder: Path

    def client(self) -> httpx.Client:
        """A client with a key."""
        return httpx.Client(base_url=self.gateway.url, headers=_HEADERS, timeout=120, trust_env=False)


@contextmanager
def bench(folder: Path, code: Path | None) -> Iterator[Bench]:
    """Start gateway and worker, of another tree of sources if ``code`` is given."""
    shards = folder / "shards"
    settings: dict[str, Any] = {
        "api_keys": KEY, "max_requests_in_flight": PLACES, "import_from": f"file://{shards}/",
        "refused_keys_per_minute": 0, "requests_per_minute": 0,
    }  # fmt: skip
    path = os.pathsep.join(sys.path)
    if code is not None:
        path = os.pathsep.join(str(code / name) for name in ("clients", "gateway", "services"))
    with served_gateway(folder / "state", python_path=path, **settings) as gateway, ExitStack() as ends:
        shards.mkdir()
        variables = {**os.environ, **gateway.environment}
        log = ends.enter_context((folder / "work.log").open("wb"))
        command = [sys.executable, "-m", "counterpose_gateway.main", "work"]
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        ends.callback(process.wait)
        ends.callback(process.kill)
        with httpx.Client(base_url=gateway.url, headers=_HEADERS, trust_env=False) as http:
            http.post("/v1/datasets", json={"name": "demo"}).raise_for_status()
            _upload(http, "demo", [inputs.image("png", np.random.default_rng(0), 2000)]).raise_for_status()
        yield Bench(gateway, ServedGateway(process, 0, folder, gateway.environment), shards)


def _upload(http: httpx.Client, dataset: str, files: list[bytes]) -> httpx.Response:
    sources = [
        {
            "filename": f"{number}.png",
            "label": "sled",
            "content_base64": base64.b64encode(file).decode(),
        }
        for number, file in enumerate(files)
    ]
    return http.post(f"/v1/datasets/{dataset}/sources", json={"sources": sources})


Sent = tuple[int, int, str]
"""How many requests were sent, their bytes, and what came back."""


def _one(files: Callable[[np.random.Generator, float], list[bytes]], at_once: bool = False) -> Any:
    """A trial that uploads files in one request, or each in one of its own at the same time."""

    def send(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
        sent = files(draw, strength)
        with on.client() as http, ThreadPoolExecutor(16) as pool:
            groups = [[file] for file in sent] if at_once else [sent]
            answers = list(pool.map(lambda group: _upload(http, "demo", group).status_code, groups))
        return len(groups), sum(map(len, sent)), ",".join(map(str, sorted(set(answers))))

    return send


def _many(draw: np.random.Generator, strength: float) -> list[bytes]:
    # Each of another size: equal images are stored once.
    side = int(draw.integers(1000, 4000))
    return [inputs.image("webp", draw, side - number, flat=True) for number in range(round(16**strength))]


def _imported(make: Callable[..., Path], change: str) -> Any:
    """A trial that lets the worker import a file."""

    def send(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
        path = make(on.folder, draw, change, strength)
        return 1, path.stat().st_size, _import(on, f"file://{path}")

    return send


def _names(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
    url = f"file://{on.folder}/none-{{000000000..{round(999_999_999**strength):09}}}.tar"
    return 1, len(url), _import(on, url)


def _import(on: Bench, url: str) -> str:
    name = f"d{time.monotonic_ns()}"
    with on.client() as http:
        http.post("/v1/datasets", json={"name": name}).raise_for_status()
        answer = http.post(f"/v1/datasets/{name}/import", json={"url": url})
        end = time.monotonic() + LONGEST_SECONDS
        while answer.is_success and time.monotonic() < end:
            state = http.get(f"/v1/datasets/{name}").json()["imported"]["state"]
            if state not in ("listing", "importing"):
                return str(state)
            time.sleep(0.1)
        http.post(f"/v1/datasets/{name}/import/cancel", json={})
    return GOES_ON if answer.is_success else str(answer.status_code)


def _withheld(path: str, *, key: bool) -> Any:
    """A trial of connections that announce a body and send its first bytes alone."""

    def send(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
        number = round(_CONNECTIONS**strength)
        own = f"authorization: Bearer {KEY}\r\n" if key else ""
        media = "application/x-www-form-urlencoded" if path.startswith("/ui") else "application/json"
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{on.gateway.port}\r\n{own}origin: {on.gateway.url}\r\n"
            f"content-type: {media}\r\ncontent-length: 1000\r\n\r\nkey="
        ).encode()
        with ExitStack() as opened:
            for _ in range(number):
                _connected(on, opened).sendall(head)
            time.sleep(0.5)
            return number, number * len(head), _reader(on)

    return send


def _unread(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
    """A trial of connections that ask for a large image and read nothing of it."""
    with on.client() as http:
        ref = _large_image(on, http)
    head = f"GET /v1/artifacts/{ref}.png HTTP/1.1\r\nhost: localhost\r\n" \
        f"authorization: Bearer {KEY}\r\n\r\n"  # fmt: skip
    number = round(_CONNECTIONS**strength)
    with ExitStack() as opened:
        for _ in range(number):
            _connected(on, opened).sendall(head.encode())
            time.sleep(0.05)
        time.sleep(2.0)
        return number, number * len(head), _reader(on)


def _large_image(on: Bench, http: httpx.Client) -> str:
    """Return the address of the largest blob of the store, which the first upload put there."""
    files = sorted((on.gateway.folder / "store").rglob("*"), key=lambda path: path.stat().st_size)
    return next(path.stem for path in reversed(files) if path.is_file() and len(path.stem) == 64)


def _connected(on: Bench, opened: ExitStack) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", on.gateway.port))
    return opened.enter_context(connection)


def _reader(on: Bench) -> str:
    """Ask as an honest reader with a key does: the worst of three answers."""
    statuses = []
    for _ in range(3):
        try:
            answer = httpx.get(f"{on.gateway.url}/v1/datasets", headers=_HEADERS, timeout=10, trust_env=False)
            statuses.append(answer.status_code)
        except httpx.TransportError:
            return "no answer"
    return str(max(statuses))


def _route(path: str) -> Any:
    """A trial of a valid request of a route, with as many rows as it gives."""

    def send(on: Bench, draw: np.random.Generator, strength: float) -> Sent:
        with on.client() as http:
            return 1, len(path), str(http.get(path).status_code)

    return send


def _changed(
    kind: str, make: Callable[..., bytes], draw: np.random.Generator, strength: float
) -> list[bytes]:
    return [make(kind, draw, strength)]


_CHANGES: Mapping[str, Callable[..., bytes]] = {
    "repeated": inputs.repeated, "widened": inputs.widened, "flipped": inputs.flipped, "cut": inputs.cut,
}  # fmt: skip
_ROUTES = (
    "/v1/datasets", "/v1/datasets/demo", "/v1/runs?limit=1000", "/v1/jobs?limit=1000", "/v1/webhooks",
    "/v1/usage", "/v1/services", "/metrics", "/openapi.json", "/ui", "/ui/login", "/healthz", "/readyz",
)  # fmt: skip

TRIALS: Mapping[str, Callable[[Bench, np.random.Generator, float], Sent]] = {
    "withheld bodies without a key: /": _withheld("/", key=False),
    "withheld bodies without a key: /ui/login": _withheld("/ui/login", key=False),
    "withheld bodies with a key": _withheld("/v1/datasets", key=True),
    "unread answers": _unread,
    **{
        f"{kind} {change}": _one(partial(_changed, kind, make))
        for kind in inputs.FORMATS for change, make in _CHANGES.items()
    },
    "png announced": _one(lambda draw, s: [inputs.announced_png(draw, s)]),
    "many images in a request": _one(_many),
    "many requests with an image": _one(_many, at_once=True),
    **{f"tar {change}": _imported(inputs.tar, change) for change in ("plain", "repeat", "announce")},
    **{f"parquet {change}": _imported(inputs.parquet, change) for change in ("plain", "inflate")},
    "names of shards": _names,
    **{f"GET {path}": _route(path) for path in _ROUTES},
}  # fmt: skip


def measured(on: Bench, name: str, seed: int) -> Cost:
    """Run one trial, drawn from a seed, and return what it cost."""
    draw = np.random.default_rng(seed)
    strength = float(draw.uniform(0.3, 1.0))
    programs = (on.gateway, on.worker)
    before = [(each.processor_seconds(), each.memory()) for each in programs]
    for each in programs:
        each.forget_peak()
    requests, sent, status = TRIALS[name](on, draw, strength)
    _settle(on)
    seconds = max(each.processor_seconds() - was for each, (was, _) in zip(programs, before, strict=True))
    mebibytes = max(each.peak() - was for each, (_, was) in zip(programs, before, strict=True))
    return Cost(
        trial=name,
        strength=round(strength, 3),
        requests=requests,
        sent_bytes=sent,
        status=status,
        seconds=round(seconds / requests, 2),
        mebibytes=round(mebibytes, 1),
        refused="without a key" in name and status != "200",
    )


def _settle(on: Bench) -> None:
    """Wait until both programs rest: what goes on after the answer is a cost of the same input."""
    end = time.monotonic() + LONGEST_SECONDS
    used = -1.0
    while time.monotonic() < end:
        now = on.gateway.processor_seconds() + on.worker.processor_seconds()
        if now - used < RESTING_SECONDS:
            return
        used = now
        time.sleep(0.5)
