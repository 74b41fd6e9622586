"""Every port that the started system listens on: which there are, who reaches them, and what they answer."""

from __future__ import annotations

import httpx
import pytest

from counterpose._stack import Stack
from counterpose_services.settings import SERVICES
from fakes.listening import Listener
from fakes.running_stack import listens

PATHS = (
    "/", "/docs", "/metrics", "/access-log", "/-/routes", "/api/version", "/api/jobs/", "/api/actors",
    "/logs", "/nodes", "/v1/models", "/v1/load_lora_adapter", "/editor/v1/edit", "/captioner/v1/caption",
)  # fmt: skip
"""What Ray, vLLM, Serve and the services would show, if they showed it to everybody."""


@pytest.mark.fault("T10")
def test_the_gateway_listens_on_its_port_alone_and_the_worker_on_none(running_stack: Stack) -> None:
    assert listens(running_stack, "gateway") == {Listener("127.0.0.1", running_stack.port)}
    assert listens(running_stack, "worker") == set()


@pytest.mark.fault("T10", "T11")
def test_no_port_of_the_services_answers_without_secret_or_token(running_stack: Stack) -> None:
    found = listens(running_stack, "services")
    assert Listener("127.0.0.1", running_stack.services_port) in found
    answered = {(each.port, path) for each in found for path in answering(each.port)}
    # Serve shows everybody on this machine which services there are; it has no setting for that.
    assert answered == {(running_stack.services_port, "/-/routes")}
    routes = httpx.get(f"http://127.0.0.1:{running_stack.services_port}/-/routes", trust_env=False).json()
    assert set(routes) == {f"/{service}" for service in SERVICES}


def answering(port: int) -> list[str]:
    """The paths that are answered with anything but a refusal; none where the port speaks no HTTP."""
    found: list[str] = []
    for path in PATHS:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2, trust_env=False)
        except httpx.HTTPError:
            return found
        if answer.status_code not in (401, 403, 404, 405):
            found.append(path)
    return found
