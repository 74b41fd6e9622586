"""A program in vLLM's place: it starts in a moment, has a worker process, and dies when a prompt says so.

Its prompts are token ids. ``RECORD`` is a file that gets its arguments, variables and processes, one line of
JSON a start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORD = "VLLM_PROGRAM_RECORD"
DEADLY = 31
"""A token at which the server dies, unless the file named like the record, with ``.spared``, is there."""
FAILING = "VLLM_PROGRAM_FAILS"
WORD = 10
END = 3


def write_program(folder: Path) -> Path:
    """Write this file as a program named ``vllm``."""
    program = folder / "vllm"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(0o700)
    return program


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.send_error(401)
            return
        spared = Path(os.environ[RECORD] + ".spared")
        if DEADLY in body["prompt"] and not spared.exists():
            spared.touch()
            os._exit(9)
        if body.get("echo"):
            odds = [None, *[-1.0] * (len(body["prompt"]) - 1)]
            self._send({"choices": [{"text": "", "logprobs": {"token_logprobs": odds}}]})
            return
        words = [WORD, WORD + body["seed"] % 3, END]
        self._send({"choices": [{"text": "", "finish_reason": "stop", "token_ids": words}]})

    def _send(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until killed."""
    if os.environ.get(FAILING):
        sys.stderr.write("ValueError: no such model\n")
        sys.exit(1)
    arguments = sys.argv[1:]
    worker = subprocess.Popen(["sleep", "600"])
    told = {"arguments": arguments, "variables": dict(os.environ), "processes": [os.getpid(), worker.pid]}
    with Path(os.environ[RECORD]).open("a", encoding="utf-8") as record:
        record.write(json.dumps(told) + "\n")
    port = int(arguments[arguments.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    main()
