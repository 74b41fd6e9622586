"""A suite that leaves services out: what needs them is refused by name; the rest is ready without them."""

from __future__ import annotations

import json

import httpx
import pytest
from pydantic import SecretStr

from counterpose_core.contract import backend_preset
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.transfer.method import TRANSFER
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.submission import require_services
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.services.clients import HttpHealth
from counterpose_gateway.settings import GatewaySettings
from fakes.world import fake_suite

CLASSIFIERS_ALONE = fake_suite().model_copy(
    update={
        "name": "photographs",
        "captioner_part": None,
        "perturber_part": None,
        "editor_part": None,
        "scorer_part": None,
    }
)


@pytest.mark.parametrize("method", [STRESS_TEST, BUG_HUNT, DATASET_INTERFACE, SHIFT_BENCHMARK])
def test_a_method_that_needs_an_absent_service_is_refused_by_name(method: AnyMethod) -> None:
    with pytest.raises(UnknownModel) as refused:
        require_services(method, CLASSIFIERS_ALONE)
    assert f"'photographs' has no {method.needs[0]}" in refused.value.detail
    assert f"the method {method.kind!r} needs" in refused.value.detail
    require_services(method, fake_suite())


@pytest.mark.parametrize(
    ("method", "lacked"),
    [(BUG_HUNT, "'draw'"), (SHIFT_BENCHMARK, "'draw'"), (DATASET_INTERFACE, "'tokens' and 'draw'")],
)
def test_a_method_beyond_the_editor_is_refused_by_name(
    method: AnyMethod, lacked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_captions = {"prompt-to-prompt": Capabilities(captions=True)}
    monkeypatch.setattr(backend_preset, "CAPABILITIES", by_captions)
    with pytest.raises(InvalidRequest) as refused:
        require_services(method, fake_suite())
    assert refused.value.status == 422
    told = f", by prompt-to-prompt, lacks {lacked}, which the method {method.kind!r} needs; start the stack"
    assert told in refused.value.detail
    require_services(STRESS_TEST, fake_suite())


@pytest.mark.parametrize("method", [GATE, TRANSFER])
def test_methods_that_only_classify_need_nothing_else(method: AnyMethod) -> None:
    require_services(method, CLASSIFIERS_ALONE)


async def test_an_absent_service_is_not_asked_and_said_to_be_absent() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=json.dumps({"service": "classifiers", "ready": True}))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        caller = ServiceCaller(http, GatewaySettings(secret=SecretStr("0" * 64)))
        states = await HttpHealth(caller, CLASSIFIERS_ALONE.services).services()
    assert asked == ["/classifiers/healthz"]
    assert [(each.service, each.in_suite, each.ready) for each in states if each.in_suite] == [
        ("classifiers", True, True)
    ]
    assert {each.detail for each in states if not each.in_suite} == {"not in this suite"}
