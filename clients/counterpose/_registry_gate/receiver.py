"""The receiver of MLflow's webhooks: it answers at once, and a thread takes the gates further."""

from __future__ import annotations

import json
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from counterpose._registry_gate.deliveries import check_signature, created_version
from counterpose._registry_gate.registry_gate import RegistryGate
from counterpose_core.errors import InvalidRequest, RequestError

LARGEST_BODY = 2**20
SLOWEST_S = 10.0
"""A caller that sends nothing for so long is cut off."""
STEP_S = 2.0
CATCH_UP_EVERY_S = 300.0


class Receiver:
    """Listens for deliveries until it is closed.

    Args:
        gate: takes up the versions.
        secret: the webhook's, at least 16 bytes.
        host: the address to listen on.
        port: 0 for a free one.
        step_s: seconds between two looks at the gates that run.

    Raises:
        InvalidRequest: the secret is too short, or the port is taken.
    """

    def __init__(
        self, gate: RegistryGate, secret: bytes, host: str, port: int, *, step_s: float = STEP_S
    ) -> None:
        if len(secret) < 16:
            raise InvalidRequest(f"the webhook's secret has {len(secret)} bytes; take at least 16")
        self.gate, self.secret = gate, secret
        self._step_s = step_s
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        try:
            self._http = _Server((host, port), self)
        except (OSError, OverflowError) as error:
            raise InvalidRequest(f"cannot listen on {host}:{port}: {error}") from error
        self._threads = [
            threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True),
            threading.Thread(target=self._work, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def address(self) -> str:
        """Where MLflow sends its deliveries."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/"

    def receive(self, headers: dict[str, str], body: bytes) -> tuple[HTTPStatus, str]:
        """Answer a delivery."""
        try:
            check_signature(headers, body, self.secret, time.time())
            version = created_version(body)
        except RequestError as error:
            return HTTPStatus(error.status), error.detail
        if version is None or not self.gate.take(version):
            return HTTPStatus.OK, "not watched"
        return HTTPStatus.ACCEPTED, f"{version} is taken up"

    def wait(self) -> None:
        """Block until the receiver is closed; raises what ended its worker, which is a defect."""
        self._threads[1].join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop; what was not done is found again by the next receiver."""
        self._stop.set()
        self._http.shutdown()
        for thread in self._threads:
            thread.join()
        self._http.server_close()

    def _work(self) -> None:
        last = float("-inf")
        try:
            while not self._stop.is_set():
                if time.monotonic() - last >= CATCH_UP_EVERY_S:
                    last = time.monotonic()
                    self.gate.catch_up()
                self.gate.step()
                self._stop.wait(self._step_s)
        except BaseException as error:
            self._failure = error


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, place: tuple[str, int], receiver: Receiver) -> None:
        self.receiver = receiver
        super().__init__(place, _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = SLOWEST_S
    server: _Server

    def do_GET(self) -> None:
        """Say that the receiver is here, and how many gates it awaits."""
        if self.path == "/health":
            self._answer(HTTPStatus.OK, {"waiting": self.server.receiver.gate.waiting})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "deliveries are sent to / by POST"})

    def do_POST(self) -> None:
        """Take a delivery."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"detail": f"more than {LARGEST_BODY} bytes"}
            )
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, detail = self.server.receiver.receive(headers, self.rfile.read(int(length)))
        return self._answer(status, {"detail": detail})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing: what happens to a version is noted where it happens."""
