"""`python beside.py ENVIRONMENT -- COMMAND...`: run a command beside an MLflow server on SQLite."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

START_S = 120.0


def main(environment: Path, command: list[str]) -> int:
    """Start the server, run the command, stop the server; return the command's exit code."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [str(environment / "bin" / "mlflow"), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
             "--artifacts-destination", f"{folder}/artifacts", "--host", "127.0.0.1", "--port", str(port),
             "--workers", "1"],
            cwd=folder,
            # Webhooks go to a receiver on loopback; a constant key keeps their secrets readable.
            env=os.environ | {
                "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http", "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
                "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": base64.urlsafe_b64encode(bytes(32)).decode(),
                "MLFLOW_WEBHOOK_CACHE_TTL": "1",
            },
        )  # fmt: skip
        try:
            _await(address)
            [packages] = environment.glob("lib/python3*/site-packages")
            told = {"COUNTERPOSE_TEST_MLFLOW": address, "COUNTERPOSE_TEST_TRACKERS_PACKAGES": str(packages)}
            return subprocess.run(command, env=os.environ | told, check=False).returncode
        finally:
            server.terminate()
            server.wait(30)


def _await(address: str) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"MLflow did not answer at {address} within {START_S:.0f} s")


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[split + 1 :]))
