"""The Serve classes without Ray: their HTTP applications over fake engines."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from counterpose_core.contract.base import (
    DEADLINE_HEADER,
    PROBLEM_MEDIA_TYPE,
    REMAINING_HEADER,
    REQUEST_ID_HEADER,
    SECRET_HEADER,
    Problem,
)
from counterpose_core.errors import AttentionNotHooked, BackendUnavailable
from counterpose_services.captioner.deployment import CaptionerDeployment
from counterpose_services.captioner.deployment import build as build_captioner
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.classifiers.deployment import build as build_classifiers
from counterpose_services.editor.deployment import build as build_editor
from counterpose_services.perturber.deployment import PerturberDeployment
from counterpose_services.perturber.deployment import build as build_perturber
from counterpose_services.scorer.deployment import ScorerDeployment
from counterpose_services.scorer.deployment import build as build_scorer
from counterpose_services.service_options import FLOAT32_SERVICES
from counterpose_services.serving.autoscaling import BUSY, LASTS, LOAD
from counterpose_services.serving.engine_service import EngineService, deployment_options
from counterpose_services.settings import SERVICES, ServiceName, ServiceSettings
from fakes.engines import FakeCaptioner, FakeClassifiers, FakePerturber, FakeScorer

SECRET = "a secret of many characters"
IMAGE = "0" * 64


def settings(**changes: object) -> ServiceSettings:
    values: dict[str, object] = {"secret": SECRET, "batch_wait_s": 0.0}
    return ServiceSettings.model_validate(values | changes)


def application(service: EngineService[Any]) -> FastAPI:
    return service.__serve_build_asgi_app__()


def client(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(
        transport=transport, base_url="http://scorer.test", headers={SECRET_HEADER: SECRET} | headers
    )


def scorer(engine: FakeScorer, **changes: object) -> FastAPI:
    return application(ScorerDeployment(settings(**changes), engine=engine))


async def settle() -> None:
    """Run every task as far as possible without the engine."""
    for _ in range(200):
        await asyncio.sleep(0)


def score_body(n: int = 1) -> dict[str, object]:
    item = {"original": IMAGE, "edited": IMAGE, "caption": "a boat", "edited_caption": "a tram"}
    return {"items": [item] * n}


def problem_of(response: httpx.Response, status: int) -> Problem:
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    problem = Problem.model_validate_json(response.content)
    assert problem.status == status
    assert problem.request_id
    return problem


async def test_every_route_of_the_scorer_answers() -> None:
    async with client(scorer(FakeScorer())) as http:
        scores = (await http.post("/v1/score", json=score_body(2))).json()
        images = (await http.post("/v1/embed-images", json={"images": [IMAGE]})).json()
        texts = (await http.post("/v1/embed-texts", json={"texts": ["boat"], "encoder": "sentence"})).json()
        fill = {"items": [{"text": "a boat", "position": 1, "seed": 1}]}
        filled = (await http.post("/v1/fill-mask", json=fill)).json()
        pairs = {"items": [{"original": IMAGE, "edited": IMAGE, "control": True}]}
        preserved = (await http.post("/v1/preservation", json=pairs)).json()
    assert [one["value"]["direction"] for one in scores["outcomes"]] == [0.006, 0.006]
    for embedded in (images, texts):
        assert sum(x * x for x in embedded["outcomes"][0]["value"]["vector"]) == pytest.approx(1.0)
    assert filled["outcomes"][0]["value"]["words"] == ["sled"]
    assert preserved["outcomes"][0]["value"]["control"]


async def test_concurrent_requests_share_the_engine_s_batch() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    async with client(scorer(engine)) as http:
        first = asyncio.create_task(http.post("/v1/score", json=score_body()))
        await asyncio.to_thread(engine.started.wait)
        rest = [asyncio.create_task(http.post("/v1/score", json=score_body(2))) for _ in range(3)]
        await settle()
        engine.go_on.set()
        responses = await asyncio.gather(first, *rest)
    assert [response.status_code for response in responses] == [200] * 4
    assert engine.batches == [1, 6]
    assert [response.json()["cost"]["clip_passes"] for response in responses] == [1, 2, 2, 2]


async def test_the_captioner_answers() -> None:
    service = CaptionerDeployment(settings(), engine=FakeCaptioner())
    async with client(application(service)) as http:
        response = await http.post("/v1/caption", json={"items": [{"image": IMAGE, "label": "sled"}]})
    assert response.json()["outcomes"][0]["value"]["text"] == "a sled"


async def test_a_replica_reports_the_work_that_it_holds() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    service = ScorerDeployment(settings(max_replicas=3), engine=engine)
    async with client(application(service)) as http:
        # Nothing that is no number of seconds is taken.
        told = [{REMAINING_HEADER: seconds} for seconds in ("600", "-1", "soon", "9" * 40)]
        waiting = [
            asyncio.create_task(http.post("/v1/score", json=score_body(8), headers=each)) for each in told
        ]
        await asyncio.to_thread(engine.started.wait)
        await settle()
        held = service.record_autoscaling_stats()
        engine.go_on.set()
        await asyncio.gather(*waiting)
        health = (await http.get("/healthz")).json()
    # Thirty-two items are one full batch: one runs, and there is room for the next.
    assert (held[LOAD], service.record_autoscaling_stats()[LOAD]) == (0.5, 0.0)
    assert 0 < held[BUSY] <= 1
    # A replica whose engine is there at once starts in the 10 s of its process.
    assert held[LASTS] == pytest.approx(60, abs=1)
    assert (health["replicas"], health["calls"]) == (3, 3 * ScorerDeployment.calls)


def test_a_service_without_replicas_needs_the_seconds_of_a_start() -> None:
    with pytest.raises(ValueError, match=r"min_replicas of the editor is 0.*COUNTERPOSE_EDITOR_START_S"):
        settings(editor={"min_replicas": 0})
    with pytest.raises(ValueError, match="leaves less than half of request_timeout_s 600"):
        settings(editor={"min_replicas": 0, "start_s": 400})
    given = settings(editor={"min_replicas": 0, "start_s": 120}, downscale_delay_s=60)
    delays = [deployment_options(name, given)["autoscaling_config"]["downscale_delay_s"] for name in SERVICES]
    assert dict(zip(SERVICES, delays, strict=True)) == dict.fromkeys(SERVICES, 60) | {"editor": 240}


async def test_concurrent_captions_share_the_perturber_s_batch() -> None:
    engine = FakePerturber()
    service = PerturberDeployment(settings(), engine=engine)
    edit = {"caption": "a boat", "perturbation_type": "subject", "n": 1, "seed": 1}
    async with client(application(service)) as http:
        calls = [http.post("/v1/perturb", json={"items": [edit]}) for _ in range(4)]
        responses = await asyncio.gather(*calls)
        weighed = await http.post("/v1/likelihoods", json={"texts": ["a boat"]})
    assert [len(response.json()["outcomes"]) for response in responses] == [1] * 4
    assert engine.batches == [4]
    assert weighed.json()["outcomes"][0]["value"]["tokens"] > 0


async def test_the_classifiers_service_answers_and_lists_its_classifiers() -> None:
    service = ClassifiersDeployment(settings(), engine=FakeClassifiers())
    body = {"classifier": "sure", "images": [IMAGE, IMAGE], "classes": ["boat", "tram"]}
    async with client(application(service)) as http:
        answer = (await http.post("/v1/classify", json=body)).json()
        listed = (await http.get("/v1/classifiers")).json()
        described = (await http.post("/v1/describe", json={"classifier": "sure"})).json()
        undescribed = await http.post("/v1/describe", json={"classifier": "absent"})
        unknown = await http.post("/v1/classify", json=body | {"classifier": "absent"})
    assert [one["value"]["top"] for one in answer["outcomes"]] == [[0, 1], [0, 1]]
    assert listed["classifiers"][0]["name"] == "sure"
    assert (described["spec"], described["parameters"]) == ("sure", 7)
    assert problem_of(undescribed, 404).code == "unknown-model"
    assert problem_of(unknown, 404).code == "unknown-model"


async def test_health_needs_no_secret_and_reports_the_weights() -> None:
    async with client(scorer(FakeScorer())) as http:
        health = (await http.get("/healthz", headers={SECRET_HEADER: ""})).json()
    assert health == {
        "service": "scorer",
        "ready": True,
        "model": FakeScorer.identity.model_dump(),
        "detail": "",
        "replicas": 1,
        "calls": ScorerDeployment.calls,
        "occupancy": None,
        "capabilities": None,
    }


@pytest.mark.fault("B52")
@pytest.mark.parametrize("given", ["", "another secret", SECRET + " "])
async def test_calls_without_the_secret_are_refused_before_reading_the_body(given: str) -> None:
    async with client(scorer(FakeScorer())) as http:
        response = await http.post("/v1/score", content=b"{", headers={SECRET_HEADER: given})
    assert problem_of(response, 401).code == "unauthorized"
    assert SECRET not in response.text


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("POST", "/v1/score", b"{", 422, "invalid-request"),
        ("POST", "/v1/score", b'{"items": []}', 422, "invalid-request"),
        ("POST", "/v1/score", b'{"items": [{"original": "x"}]}', 422, "invalid-request"),
        ("POST", "/v1/nothing", b"{}", 404, "not-found"),
        ("GET", "/v1/score", b"", 405, "method-not-allowed"),
        ("GET", "/docs", b"", 404, "not-found"),
    ],
)
async def test_every_refusal_is_a_problem(
    method: str, path: str, content: bytes, status: int, code: str
) -> None:
    async with client(scorer(FakeScorer())) as http:
        response = await http.request(method, path, content=content)
    assert problem_of(response, status).code == code


@pytest.mark.fault("T6")
async def test_unknown_fields_are_refused_by_name() -> None:
    async with client(scorer(FakeScorer())) as http:
        response = await http.post("/v1/score", json=score_body() | {"colour": "red"})
    assert [one.pointer for one in problem_of(response, 422).errors] == ["/colour"]


async def test_a_counterpose_error_keeps_its_code() -> None:
    engine = FakeScorer()
    engine.failure = AttentionNotHooked("no layer was hooked")
    async with client(scorer(engine)) as http:
        problem = problem_of(await http.post("/v1/score", json=score_body()), 500)
    assert (problem.code, problem.detail) == ("attention-not-hooked", "no layer was hooked")


async def test_an_unexpected_error_reveals_no_details(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeScorer()
    engine.failure = ZeroDivisionError("/home/somebody/secret.py")
    async with client(scorer(engine)) as http:
        response = await http.post("/v1/score", json=score_body())
    assert problem_of(response, 500).code == "internal-error"
    assert "somebody" not in response.text
    assert "somebody" in caplog.text


async def test_a_problem_has_the_request_s_id_or_a_new_one() -> None:
    ids = ("run-7", "", "x" * 500)
    async with client(scorer(FakeScorer())) as http:
        answers = [await http.get("/v1/score", headers={REQUEST_ID_HEADER: given}) for given in ids]
    given, made, unusable = (problem_of(answer, 405).request_id or "" for answer in answers)
    assert given == "run-7"
    assert len(made) == len(unusable) == 32


async def test_a_full_queue_sheds_with_retry_after() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    async with client(scorer(engine, max_queue=2)) as http:
        waiting = [asyncio.create_task(http.post("/v1/score", json=score_body())) for _ in range(2)]
        await asyncio.to_thread(engine.started.wait)
        await settle()
        shed = await http.post("/v1/score", json=score_body())
        healthy = await http.get("/healthz")
        engine.go_on.set()
        answered = await asyncio.gather(*waiting)
        after = await http.post("/v1/score", json=score_body())
    assert problem_of(shed, 429).retryable
    assert int(shed.headers["retry-after"]) >= 1
    assert [response.status_code for response in (healthy, *answered, after)] == [200] * 4


async def test_a_deadline_stops_the_wait_and_frees_the_queue() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    async with client(scorer(engine, max_queue=1)) as http:
        late = await http.post("/v1/score", json=score_body(), headers={DEADLINE_HEADER: "0.05"})
        engine.go_on.set()
        after = await http.post("/v1/score", json=score_body())
    assert problem_of(late, 504).code == "deadline-exceeded"
    assert after.status_code == 200


@pytest.mark.parametrize(("given", "status"), [("-1", 504), ("soon", 422), ("nan", 422), ("inf", 422)])
async def test_expired_and_invalid_deadlines_are_refused(given: str, status: int) -> None:
    async with client(scorer(FakeScorer())) as http:
        response = await http.post("/v1/score", json=score_body(), headers={DEADLINE_HEADER: given})
    assert response.status_code == status


def test_a_hanging_engine_fails_the_health_check() -> None:
    service = ScorerDeployment(settings(), engine=FakeScorer())
    service.check_health()
    service.thread._busy_since[0] = -1e9
    with pytest.raises(BackendUnavailable):
        service.check_health()


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("captioner", build_captioner),
        ("perturber", build_perturber),
        ("editor", build_editor),
        ("scorer", build_scorer),
        ("classifiers", build_classifiers),
    ],
)
def test_serve_reads_the_builder_s_argument_as_settings(
    name: str, build: Callable[[ServiceSettings], Any]
) -> None:
    (parameter,) = inspect.signature(build).parameters.values()
    assert parameter.annotation is ServiceSettings
    assert build(settings())._bound_deployment.name == name


def test_deployments_limit_replicas_and_queues_by_their_settings() -> None:
    given = settings(min_replicas=2, max_replicas=3, max_queue=32, threads=2, request_timeout_s=90)
    options = deployment_options("scorer", given)
    assert options["max_queued_requests"] == options["max_ongoing_requests"] == 32
    assert options["backpressure_config"]["status_code"] == 429
    assert options["autoscaling_config"]["min_replicas"] == 2
    assert options["autoscaling_config"]["max_replicas"] == 3
    assert options["graceful_shutdown_timeout_s"] > 90
    assert options["ray_actor_options"]["runtime_env"]["env_vars"] == {"OMP_NUM_THREADS": "2"}


def test_a_service_s_own_settings_make_its_deployment() -> None:
    own = {"num_gpus": 0.5, "min_replicas": 2, "max_replicas": 3, "max_queue": 16}
    given = settings(device="cuda", max_queue=32, editor=own)
    editor, scorer = deployment_options("editor", given), deployment_options("scorer", given)
    assert [one["ray_actor_options"]["num_gpus"] for one in (editor, scorer)] == [0.5, 0.2]
    assert [one["max_ongoing_requests"] for one in (editor, scorer)] == [16, 32]
    assert editor["autoscaling_config"]["min_replicas"] == 2
    assert editor["autoscaling_config"]["max_replicas"] == 3


@pytest.mark.parametrize("service", ["captioner", "perturber", "editor", "scorer", "classifiers"])
def test_each_engine_loads_on_its_own_device_in_its_own_precision(
    service: ServiceName, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    class Loaded:
        def calibrate(self, folder: Path) -> None:
            asked["calibrated"] = folder

    def load(*given: Any, **options: Any) -> Loaded:
        asked.update(options, given=given)
        return Loaded()

    engines = importlib.import_module(f"counterpose_services.{service}.engine")
    deployments = importlib.import_module(f"counterpose_services.{service}.deployment")
    monkeypatch.setattr(getattr(engines, f"{service.capitalize()}Engine"), "load", load)
    own = {"device": "cuda:3"} | ({} if service in FLOAT32_SERVICES else {"dtype": "bfloat16"})
    given = settings(**{service: own})
    getattr(deployments, f"{service.capitalize()}Deployment").load(given)
    # Only the editor's calls are packed, and on a processor its limits are the suite's.
    assert asked.get("calibrated") == (given.state_dir / "calibration" if service == "editor" else None)
    assert asked.get("dtype", "bfloat16") == "bfloat16"
    assert (asked["given"][-1].device if service == "classifiers" else asked["device"]) == "cuda:3"


def test_a_replica_refuses_a_gpu_that_it_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(BackendUnavailable, match="set COUNTERPOSE_SCORER_DEVICE to cpu"):
        ScorerDeployment(settings(scorer={"device": "cuda"}))


async def test_each_service_sheds_at_its_own_queue() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    async with client(scorer(engine, max_queue=64, scorer={"max_queue": 1})) as http:
        waiting = asyncio.create_task(http.post("/v1/score", json=score_body()))
        await asyncio.to_thread(engine.started.wait)
        await settle()
        shed = await http.post("/v1/score", json=score_body())
        engine.go_on.set()
        await waiting
    assert problem_of(shed, 429).retryable


def test_settings_come_from_arguments_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOSE_SUITE", "lance")
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", "/var/lib/counterpose")
    monkeypatch.setenv("COUNTERPOSE_SERVICES_PORT", "9000")
    monkeypatch.setenv("COUNTERPOSE_SERVICES_OIP_HOSTS", "a.test,b.test:80")
    found = ServiceSettings.model_validate({"suite": "miniature"})
    assert found.suite == "miniature"
    assert found.port == 9000
    assert found.oip_hosts == ("a.test", "b.test:80")
    assert found.store_url == "/var/lib/counterpose/store"
    assert str(found.secret_file) == "/var/lib/counterpose/secret"
