"""The environment of the machine that runs the tests must not reach a client."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from counterpose import Client
from fakes.command import Play
from fakes.sdk import Script

VARIABLES = (
    "COUNTERPOSE_URL", "COUNTERPOSE_API_KEY",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "FORCE_COLOR",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the two clients a test is about: each says once what both must do."""
    return str(request.param)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Let every client of a command talk to a script and sleep no second.

    The working directory is one where no folder is called as a dataset is.
    """
    monkeypatch.chdir(tmp_path)

    def begin(*answers: httpx.Response | Exception) -> Script:
        script = Script(*answers)
        transport = httpx.MockTransport(script)
        monkeypatch.setattr(
            Client,
            "_connect",
            lambda self, url, timeout, headers: httpx.Client(
                transport=transport, base_url=url, timeout=timeout, headers=headers
            ),
        )
        monkeypatch.setattr(Client, "_sleep", lambda self, seconds: None)
        return script

    return begin
