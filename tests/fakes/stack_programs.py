"""Programs of a stack that record their calls and sleep, and a gateway address that answers for them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

NOTING = '#!/bin/sh\necho "$(basename "$0") $*" >> "$COUNTERPOSE_STATE_DIR/calls"\n'
SERVING = f'{NOTING}case "$1" in register-dataset) exit 0;; esac\nexec sleep 60\n'
RENDERING = f'{NOTING}mkdir -p "$4"\n'
FAILING_RENDERER = '#!/bin/sh\nmkdir -p "$4"\necho out of ink >&2\nexit 1\n'


def write_program(path: Path, text: str) -> None:
    """Write an executable script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


LASTING = ("counterpose-services up", "counterpose-gateway serve", "counterpose-gateway work")


class FakeGateway:
    """Answers as a gateway would: healthy always, ready once all that stays up has noted its call.

    A program is a process of its own: whoever reads what was noted must not come before it.
    """

    def __init__(self, calls: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = calls.read_text(encoding="utf-8") if calls.exists() else ""
                ready = self.path == "/healthz" or all(call in known for call in LASTING)
                told = {"status": "ok", "version": "0.0.1"} if ready else {"detail": "not ready: editor"}
                self.send_response(200 if ready else 503)
                self.end_headers()
                self.wfile.write(json.dumps(told).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
