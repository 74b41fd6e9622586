"""Calls to services: transient failures are retried, invalid answers are refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from counterpose_core.contract import (
    captioner,
    classifiers,
    editor,
    judges,
    perturber,
    preservation,
    scorer,
    tokens,
)
from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, Problem
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.contract.order_effects import OrderEffectRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    ImageUndecodable,
    InternalError,
    RateLimited,
    Unauthorized,
    UnknownModel,
)
from counterpose_gateway.services.clients import SERVICE_NAMES, HttpHealth, calling_services, services_of
from counterpose_gateway.services.ports import Captioner, Classifiers, Editor, Perturber, Scorer, Services
from counterpose_gateway.settings import GatewaySettings
from fakes.service_http import Time, answering, caller_over, refusal

REF = "a" * 64
MODEL = {"id": "m", "revision": "0"}
CAPTION = {"value": {"text": "a sled", "log_likelihood": -1.0, "tokens": 2}}
ASKED = captioner.CaptionRequest(items=[captioner.CaptionItem(image=REF)])
GOOD = {"outcomes": [CAPTION], "model": MODEL}
WITH_NAN = json.dumps(GOOD).replace("-1.0", "NaN")


async def test_a_call_carries_secret_deadline_trace_and_key() -> None:
    handle, seen = answering(httpx.Response(200, json=GOOD))
    services = services_of(caller_over(handle, call_seconds=12.5))
    await services.captioner.caption(ASKED)
    await services.captioner.caption(ASKED)
    first, second = seen
    assert str(first.url) == "http://127.0.0.1:8101/captioner/v1/caption"
    assert first.headers["x-counterpose-secret"] == "a-secret-of-some-length"
    assert first.headers["x-counterpose-deadline-seconds"] == "12.5"
    assert first.headers["traceparent"].startswith("00-")
    assert first.headers["traceparent"] != second.headers["traceparent"]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.fault("F27")
@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("nobody there"),
        httpx.RemoteProtocolError("empty reply"),
        httpx.ReadError("reset"),
        httpx.Response(500, text="Internal Server Error"),
        httpx.Response(404, text="Path not found, applications are starting"),
        httpx.Response(429, text="shed"),
        httpx.Response(503, text="draining"),
        refusal(BackendUnavailable("loading")),
        refusal(RateLimited("the queue is full")),
    ],
)
async def test_transient_failures_are_retried(trouble: httpx.Response | Exception) -> None:
    time = Time()
    handle, seen = answering(trouble, trouble, httpx.Response(200, json=GOOD))
    answer = await services_of(caller_over(handle, time)).captioner.caption(ASKED)
    assert answer.outcomes[0].unwrap().text == "a sled"
    assert len(seen) == 3
    assert 0.25 <= time.pauses[0] <= 0.5 <= time.pauses[1] <= 1.0


async def test_retries_end_after_a_minute_with_short_pauses() -> None:
    time = Time()
    handle, _ = answering(httpx.ConnectError("refused"))
    with pytest.raises(BackendUnavailable, match="the captioner cannot be reached"):
        await services_of(caller_over(handle, time)).captioner.caption(ASKED)
    assert 45 < time.now <= 60
    assert max(time.pauses) <= 8


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal(UnknownModel("no model 'x'")), UnknownModel),
        (refusal(BadBackendOutput("NaN")), BadBackendOutput),
        (httpx.Response(418, text="a teapot"), BadBackendOutput),
        (httpx.Response(302, headers={"location": "http://169.254.169.254/"}), BadBackendOutput),
        (httpx.Response(200, text="<html>"), BadBackendOutput),
        (httpx.Response(200, json=[]), BadBackendOutput),
        (httpx.Response(200, json={"outcomes": [], "model": MODEL}), BadBackendOutput),
        (httpx.Response(200, json={"outcomes": [CAPTION, CAPTION], "model": MODEL}), BadBackendOutput),
        (httpx.Response(200, json={"outcomes": [{}], "model": MODEL}), BadBackendOutput),
        (httpx.Response(200, text=WITH_NAN), BadBackendOutput),
        (httpx.Response(503, text="{", headers={"content-type": PROBLEM_MEDIA_TYPE}), BadBackendOutput),
        (httpx.ReadTimeout("slow"), DeadlineExceeded),
    ],
)  # fmt: skip
async def test_permanent_failures_are_raised_at_once(
    answer: httpx.Response | Exception, expected: type[CounterposeError]
) -> None:
    handle, seen = answering(answer)
    with pytest.raises(expected):
        await services_of(caller_over(handle)).captioner.caption(ASKED)
    assert len(seen) == 1


async def test_a_refused_secret_is_an_internal_error() -> None:
    handle, _ = answering(refusal(Unauthorized("the shared secret is wrong")))
    with pytest.raises(InternalError, match="the captioner refuses the shared secret"):
        await services_of(caller_over(handle)).captioner.caption(ASKED)


Call = Callable[[Services], Awaitable[object]]
SCORED = scorer.ScoreItem(original=REF, edited=REF, caption="a", edited_caption="b")
CALLS: dict[str, Call] = {
    "/captioner/v1/caption": lambda to: to.captioner.caption(ASKED),
    "/captioner/v1/log-likelihood": lambda to: to.captioner.log_likelihood(
        captioner.LogLikelihoodRequest(items=[captioner.LogLikelihoodItem(image=REF, text="a")])
    ),
    "/perturber/v1/perturb": lambda to: to.perturber.perturb(
        perturber.PerturbRequest(
            items=[perturber.PerturbItem(caption="a", perturbation_type="object", n=1, seed=0)]
        )
    ),
    "/perturber/v1/likelihoods": lambda to: to.perturber.likelihoods(
        perturber.LikelihoodsRequest(texts=["a"])
    ),
    "/editor/v1/reconstruct": lambda to: to.editor.reconstruct(
        editor.ReconstructRequest(
            items=[editor.ReconstructItem(image=REF, caption="a")], preset=PromptToPromptPreset()
        )
    ),
    "/editor/v1/edit": lambda to: to.editor.edit(
        editor.EditRequest(
            items=[editor.EditItem(image=REF, caption="a", edited_caption="b")], preset=PromptToPromptPreset()
        )
    ),
    "/editor/v1/generate": lambda to: to.editor.generate(
        editor.GenerateRequest(items=[editor.GenerateItem(prompt="a", seed=0)])
    ),
    "/editor/v1/learn-tokens": lambda to: to.editor.learn_tokens(
        tokens.LearnTokensRequest(
            items=[tokens.LearnTokenItem(class_name="sled", images=[REF])],
            preset=tokens.TextualInversionPreset(),
            seed=0,
        )
    ),
    "/scorer/v1/score": lambda to: to.scorer.score(scorer.ScoreRequest(items=[SCORED])),
    "/scorer/v1/embed-images": lambda to: to.scorer.embed_images(scorer.EmbedImagesRequest(images=[REF])),
    "/scorer/v1/embed-texts": lambda to: to.scorer.embed_texts(scorer.EmbedTextsRequest(texts=["a"])),
    "/scorer/v1/fill-mask": lambda to: to.scorer.fill_mask(
        scorer.FillMaskRequest(items=[scorer.FillMaskItem(text="a", position=0, seed=0)])
    ),
    "/scorer/v1/segment": lambda to: to.scorer.segment(
        scorer.SegmentRequest(items=[scorer.SegmentItem(image=REF, label="a")])
    ),
    "/scorer/v1/preservation": lambda to: to.scorer.preservation(
        preservation.PreservationRequest(items=[preservation.PreservationItem(original=REF, edited=REF)])
    ),
    "/scorer/v1/judge": lambda to: to.scorer.judge(
        judges.JudgeRequest(
            judge="judge",
            items=[judges.JudgeItem(original=REF, edited=REF, label="a", caption="a", edited_caption="b")],
        )
    ),
    "/classifiers/v1/classify": lambda to: to.classifiers.classify(
        classifiers.ClassifyRequest(classifier="steady", images=[REF], classes=["sled"])
    ),
}


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("path", CALLS)
async def test_every_port_has_an_address_and_checks_the_number_of_outcomes(path: str, count: int) -> None:
    outcome = {"problem": Problem.of(ImageUndecodable("unreadable")).model_dump()}
    handle, seen = answering(httpx.Response(200, json={"outcomes": [outcome] * count, "model": MODEL}))
    with pytest.raises(BadBackendOutput, match=f"answered {count} outcomes for 1 items"):
        await CALLS[path](services_of(caller_over(handle)))
    assert seen[0].url.path == path


def test_every_batch_method_of_the_ports_is_covered() -> None:
    ports = (Captioner, Perturber, Editor, Scorer, Classifiers)
    methods = {name for port in ports for name in vars(port) if not name.startswith("_")}
    called = {path.rpartition("/")[2].replace("-", "_") for path in CALLS}
    assert methods - called == {"describe", "list_classifiers", "order_effect"}


async def test_the_effect_of_an_order_is_asked_of_its_service() -> None:
    changes = {"estimate": 0.5, "low": 0.1, "high": 0.9, "n": 4}
    handle, seen = answering(httpx.Response(200, json={"orders": 2, "changes": changes, "even": 0.5}))
    request = OrderEffectRequest(classifier="chat:colour", images=[REF], classes=["a", "b"], seed=1)
    found = await services_of(caller_over(handle)).classifiers.order_effect(request)
    assert (found.orders, found.changes.n, found.first) == (2, 4, None)
    assert seen[-1].url.path == "/classifiers/v1/order-effect"


async def test_classifiers_are_listed_by_their_service() -> None:
    found = {"classifiers": [{"name": "steady", "spec": "steady"}]}
    handle, seen = answering(httpx.ConnectError("starting"), httpx.Response(200, json=found))
    listed = await services_of(caller_over(handle)).classifiers.list_classifiers()
    assert [one.name for one in listed.classifiers] == ["steady"]
    assert seen[-1].url.path == "/classifiers/v1/classifiers"


async def test_a_classifier_is_described_by_its_service() -> None:
    handle, seen = answering(httpx.Response(200, json={"name": "steady", "spec": "steady", "parameters": 7}))
    found = await services_of(caller_over(handle)).classifiers.describe(
        classifiers.DescribeRequest(classifier="steady")
    )
    assert found.parameters == 7
    assert (seen[-1].method, seen[-1].url.path) == ("POST", "/classifiers/v1/describe")
    assert json.loads(seen[-1].content) == {"classifier": "steady"}


async def test_a_caller_that_repeats_itself_hears_at_once_of_a_service_that_nobody_started() -> None:
    time, (handle, seen) = Time(), answering(httpx.ConnectError("refused"))
    caller = caller_over(handle, time, absent_seconds=0.0)
    # More than open the circuit, so that calls to it pause.
    for _ in range(9):
        with pytest.raises(
            BackendUnavailable, match=r"cannot be reached .*: on one machine, `counterpose up`"
        ):
            await caller.get("captioner", "/v1/health", captioner.CaptionResponse)
    assert time.pauses == []
    assert len(seen) < 9


async def test_a_service_that_refused_once_and_then_breaks_is_waited_for_again() -> None:
    time = Time()
    handle, _ = answering(
        httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.Response(200, json=GOOD)
    )
    services = services_of(caller_over(handle, time, absent_seconds=0.0))
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await services.captioner.caption(ASKED)
    await services.captioner.caption(ASKED)
    assert len(time.pauses) == 1


async def test_health_is_requested_once_and_says_why_a_service_is_not_ready() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        service = request.url.path.split("/")[1]
        if service == "editor":
            raise httpx.ConnectError("refused")
        if service == "captioner":
            raise httpx.ReadTimeout("late")
        return httpx.Response(200, json={"service": service, "ready": service != "scorer"})

    time = Time()
    found = await HttpHealth(caller_over(handle, time)).services()
    assert [one.service for one in found] == list(SERVICE_NAMES)
    assert {one.service for one in found if not one.ready} == {"captioner", "editor", "scorer"}
    assert "cannot be reached" in found[2].detail
    # Of a call of work the remedy would be to ask for less.
    assert found[0].detail == "no answer within 3 s: it starts, or is busy"
    assert time.pauses == []


async def test_health_passes_on_what_the_editor_can_do() -> None:
    able = Capabilities(transform=True, levels=True)

    def handle(request: httpx.Request) -> httpx.Response:
        service = request.url.path.split("/")[1]
        said = {"capabilities": able.model_dump()} if service == "editor" else {}
        return httpx.Response(200, json={"service": service, "ready": True, **said})

    found = await HttpHealth(caller_over(handle, Time())).services()
    assert {one.service: one.capabilities for one in found if one.capabilities} == {"editor": able}


@pytest.mark.fault("B48")
async def test_the_http_client_ignores_proxies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    settings = GatewaySettings.model_validate({"secret": "a-secret", "services_url": "http://127.0.0.1:9"})
    async with calling_services(settings) as caller:
        found = await HttpHealth(caller).services()
    assert all("ConnectError" in one.detail for one in found)
