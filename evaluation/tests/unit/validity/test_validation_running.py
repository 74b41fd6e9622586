"""The stress test of a validation through the SDK: created once, resumed, and read completely."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from counterpose import Client, StressTest
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.contract.runs import RunList
from counterpose_core.images.codecs import encode_raw
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.settings import GatewaySettings
from evaluation.tests.fakes.validity import item, scene
from evaluation.validity import serving
from evaluation.validity.running import DATASET, collected, rest_others, start, take_up, watched
from evaluation.validity.serving import MODELS_FOLDER, ModelsStack, Service
from fakes.sdk import Answer, Script, a_run, an_event, ok, run_answer, stream_answer
from fakes.service_http import answering, caller_over

MODEL = {"id": "editor", "revision": "1"}


def client(*answers: Answer) -> tuple[Client, Script]:
    script = Script(*answers)
    http = httpx.Client(transport=httpx.MockTransport(script), base_url="http://gateway.test")
    return Client(http=http), script


def test_services_receive_the_folder_of_extra_classifiers(tmp_path: Path) -> None:
    stack = ModelsStack(state=tmp_path, models=tmp_path / "classifiers")
    assert stack.environment()[MODELS_FOLDER] == str(tmp_path / "classifiers")
    assert stack.environment()["COUNTERPOSE_STATE_DIR"] == str(tmp_path)


def test_a_foreign_gateway_on_our_port_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelsStack, "up", lambda _: None)
    with pytest.raises(SystemExit, match=r"another gateway answers at http://127\.0\.0\.1:9000"):
        Service(tmp_path, tmp_path, port=9000).client()


def test_images_are_generated_by_the_editor_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "client", lambda _: None)
    shown = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    store = BlobStore(str(tmp_path / "store"))
    outcomes = [{"value": {"image": store.put(encode_raw(one))}} for one in shown]
    handler, seen = answering(httpx.Response(200, json={"outcomes": outcomes, "model": MODEL}))

    @asynccontextmanager
    async def calling(settings: GatewaySettings) -> AsyncIterator[ServiceCaller]:
        yield caller_over(handler, services_url=settings.services_url)

    monkeypatch.setattr(serving, "calling_services", calling)
    items = [GenerateItem(prompt="a photo of a boat", seed=seed) for seed in (1, 2)]
    found = Service(tmp_path, tmp_path, port=9000).draw(GenerateRequest(items=items))
    assert np.array_equal(found, shown)
    assert str(seen[0].url) == "http://127.0.0.1:9001/editor/v1/generate"


def test_a_service_behind_a_given_url_is_not_ours(tmp_path: Path) -> None:
    assert Service(tmp_path, tmp_path).is_ours
    assert not Service(tmp_path, tmp_path, url="http://gateway.test").is_ours


def test_a_stress_test_is_created_under_its_idempotency_key() -> None:
    asked, script = client(run_answer())
    start(asked, "validity", ["unbiased-resnet", "local:mine"], preset="lance", edits=10, seed=2, key="k")
    body = json.loads(script.seen[0].content)
    assert body["classifiers"] == ["unbiased-resnet", "local:mine"]
    assert (body["dataset"], body["preset"], body["max_edits_per_image"], body["seed"]) == (
        "validity",
        "lance",
        10,
        2,
    )
    # One stage: what is screened and confirmed would not compare with the figures on record.
    assert body["confirm"] is False
    assert script.seen[0].headers["idempotency-key"] == "k"


def test_a_run_in_progress_is_only_read() -> None:
    asked, script = client(run_answer("in_progress"))
    take_up(asked.stress_tests, "run-1")
    assert [request.method for request in script.seen] == ["GET"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_failed_and_cancelled_runs_are_resumed(state: str) -> None:
    asked, script = client(run_answer(state), run_answer("queued"))  # type: ignore[arg-type]  # a state
    take_up(asked.stress_tests, "run-1")
    assert script.seen[1].url.path.endswith("run-1/resume")


def test_unfinished_runs_of_other_validations_are_cancelled() -> None:
    mine = a_run("in_progress").model_copy(update={"dataset": f"{DATASET}a"})
    others = {
        "left": mine.model_copy(update={"id": "left"}),
        "ended": mine.model_copy(update={"id": "ended", "state": "completed"}),
        "user-s": mine.model_copy(update={"id": "user-s", "dataset": "demo"}),
    }
    listed = RunList(runs=[mine, *others.values()])
    left = ok(others["left"].model_dump_json())
    asked, script = client(ok(listed.model_dump_json()), left)
    rest_others(asked.stress_tests, mine.id)
    assert [request.url.path for request in script.seen] == ["/v1/runs", "/v1/runs/left/cancel"]


def test_a_run_is_followed_to_its_end() -> None:
    ended = an_event(2, "completed", done=3)
    asked, _ = client(stream_answer(an_event(1, done=1), ended), run_answer("completed", done=3))
    assert watched(StressTest(asked, a_run("in_progress"))).ended


def test_an_ended_run_is_not_followed() -> None:
    asked, script = client()
    assert watched(StressTest(asked, a_run("completed", done=3))).ended
    assert script.seen == []


def test_a_run_that_did_not_complete_is_an_error() -> None:
    asked, _ = client(stream_answer(an_event(1, "cancelled")), run_answer("cancelled"))
    with pytest.raises(RuntimeError, match="'run-1' ended cancelled"):
        watched(StressTest(asked, a_run("in_progress")))


def test_all_pages_of_items_are_collected() -> None:
    one, two = (item(scene(), None, name=name, kind="reconstruction", edit_type=None) for name in ("1", "2"))
    pages = [
        ok({"items": [each.model_dump(mode="json")], "after": after})
        for each, after in ((one, "cursor"), (two, None))
    ]
    asked, script = client(*pages)
    found = collected(StressTest(asked, a_run("completed", done=3)))
    assert [each.id for each in found.items] == ["1", "2"]
    assert script.seen[1].url.params["after"] == "cursor"
