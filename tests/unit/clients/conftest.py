"""What the environment of whoever runs the tests says must not reach a client."""

from __future__ import annotations

import pytest

VARIABLES = (
    "FAULTLINE_URL", "FAULTLINE_API_KEY",
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
