"""A Python function served over the Open Inference Protocol v2, on loopback for this machine only."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from counterpose._python_function.probabilities import ServedFunction
from counterpose_core.contract.preparations import PREPARATIONS
from counterpose_core.errors import InvalidRequest

LOOPBACK = "127.0.0.1"
SECRET_BYTES = 20
LARGEST_BODY = 512 * 2**20
"""64 images of 512 x 512 pixels are about 180 MB as JSON."""

_NOTHING = "nothing here"
_Answer = tuple[int, Mapping[str, Any]]


class FunctionServer:
    """Serves a function from its own thread until closed.

    Raises:
        InvalidRequest: the port is taken.
    """

    def __init__(self, function: ServedFunction, port: int = 0) -> None:
        self.function = function
        # Every program of this machine can reach the port: only those that were told the path are answered.
        self._secret = secrets.token_hex(SECRET_BYTES)
        # The user's function may not be thread-safe.
        self._turn = threading.Lock()
        self.closed = False
        try:
            self._http = _Server((LOOPBACK, port), self)
        except (OSError, OverflowError) as error:
            raise InvalidRequest(f"cannot serve {function.spec!r} on port {port}: {error}") from error
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        """The host and port that it listens on."""
        return f"{LOOPBACK}:{self._http.server_port}"

    @property
    def address(self) -> str:
        """The model's address, whose path begins with a secret."""
        return f"http://{self.host}/{self._secret}{self._path}/versions/{self.function.version}"

    @property
    def spec(self) -> str:
        """The classifier spec for a client on this machine."""
        return f"oip:{self.address}"

    def close(self) -> None:
        """Stop serving, on open connections too."""
        self.closed = True
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def read(self, path: str) -> _Answer:
        """Answer a GET."""
        path = self._inside(path)
        if path in ("/v2/health/live", "/v2/health/ready"):
            return 200, {path.rpartition("/")[2]: True}
        return _refusal(404, _NOTHING) if self._asked(path, "") is None else (200, self._metadata())

    def infer(self, path: str, body: bytes) -> _Answer:
        """Answer a POST."""
        prepared = self._asked(self._inside(path), "/infer")
        if prepared is None:
            return _refusal(404, _NOTHING)
        height, width = self.function.size
        try:
            (tensor,) = json.loads(body)["inputs"]
            n = int(tensor["shape"][0])
            fits = n > 0 and tensor["shape"] == [n, height, width, 3] and tensor["datatype"] == "UINT8"
            # Rejects everything but integers from 0 to 255, about fifty times faster than a loop.
            pixels = bytes(tensor["data"]) if fits and isinstance(tensor["data"], list) else b""
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            return _refusal(400, f"the body is not an inference request: {type(error).__name__}")
        if not fits or len(pixels) != n * height * width * 3:
            return _refusal(400, f"expected UINT8 images of shape (n, {height}, {width}, 3)")
        with self._turn:
            rows = self.function.rows(pixels, n, prepared)
        return 200, self._inferred(rows)

    def _inside(self, path: str) -> str:
        """Return the path below the secret; empty where it is another."""
        _, _, rest = path.partition("/")
        secret, slash, below = rest.partition("/")
        known = hmac.compare_digest(secret.encode(), self._secret.encode())
        return slash + below if known else ""

    def _inferred(self, rows: list[list[float] | str]) -> Mapping[str, Any]:
        width = self.function.n_classes
        output: dict[str, Any] = {
            "name": "probabilities",
            "datatype": "FP32",
            "shape": [len(rows), width],
            # Nothing that could pass for a prediction stands in for an image that has none.
            "data": [number for row in rows for number in ([None] * width if isinstance(row, str) else row)],
        }
        if errors := {str(index): row for index, row in enumerate(rows) if isinstance(row, str)}:
            output["parameters"] = {"errors": errors}
        return {"model_name": self.function.name, "model_version": self.function.version, "outputs": [output]}

    def _metadata(self) -> Mapping[str, Any]:
        function = self.function
        output: dict[str, Any] = {
            "name": "probabilities", "datatype": "FP32", "shape": [-1, function.n_classes],
        }  # fmt: skip
        if function.classes is not None:
            output["parameters"] = {"labels": function.classes}
        return {
            "name": function.name,
            "versions": [function.version],
            "platform": "python",
            "inputs": [{"name": "images", "datatype": "UINT8", "shape": [-1, *function.size, 3]}],
            "outputs": [output],
            "parameters": {"preparations": {each: PREPARATIONS[each] for each in function.preparations}},
        }

    @property
    def _path(self) -> str:
        return f"/v2/models/{self.function.name}"

    def _asked(self, path: str, verb: str) -> str | None:
        """Return the preparation that a path asks for: none, or that behind the version; None for no path."""
        version = f"{self._path}/versions/{self.function.version}"
        paths = {f"{self._path}{verb}": "", f"{version}{verb}": ""}
        paths |= {f"{version}-{each}{verb}": each for each in self.function.preparations}
        return paths.get(path)


def _refusal(status: int, why: str) -> _Answer:
    return status, {"error": why}


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], functions: FunctionServer) -> None:
        self.functions = functions
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One connection: the protocol's bytes, no decisions."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer(*(self._refused() or self.server.functions.read(self.path)))

    def do_POST(self) -> None:
        """Answer a POST."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            # The unread body would be parsed as the next request.
            self.close_connection = True
            self._answer(*_refusal(413, f"a body needs a content-length of at most {LARGEST_BODY} bytes"))
            return
        body = self.rfile.read(int(length))
        self._answer(*(self._refused() or self.server.functions.infer(self.path, body)))

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: standard error belongs to the command."""

    def _refused(self) -> _Answer | None:
        if self.server.functions.closed:
            self.close_connection = True
            return _refusal(503, "the function is no longer served")
        # DNS rebinding: a web page can point any host name to this machine, but not change the Host header.
        if self.headers.get("host") == self.server.functions.host:
            return None
        return _refusal(403, "this server answers on loopback only")

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        if self.close_connection:
            # Otherwise a client reuses the connection and loses its next request.
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)
