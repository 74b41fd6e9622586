"""Both clients against the real gateway application with fake services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import pytest

from counterpose import AsyncClient, Client
from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.errors import (
    CounterposeError,
    IdempotencyConflict,
    NotFound,
    RunNotCancellable,
    UnknownDataset,
    UnknownModel,
)
from counterpose_core.images.codecs import encode_png
from fakes.gateway import URL, FakeGateway, fake_gateway

T = TypeVar("T")


class BlockingTransport(httpx.BaseTransport):
    """Passes a blocking client's requests to an ASGI application on a loop that does not run meanwhile."""

    def __init__(
        self, http: httpx.AsyncClient, run: Callable[[Coroutine[Any, Any, httpx.Response]], Any]
    ) -> None:
        self._http = http
        self._run = run

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass one request on and read its answer whole."""
        sent = self._http.request(
            request.method, request.url, content=request.read(), headers=request.headers, timeout=None
        )
        answer: httpx.Response = self._run(sent)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


class Journey:
    """A gateway with a dataset, and both clients of it."""

    def __init__(self, gateway: FakeGateway, runner: asyncio.Runner) -> None:
        self.gateway = gateway
        self.run = runner.run
        transport = BlockingTransport(gateway.http, runner.run)
        self.sync = Client(http=httpx.Client(transport=transport, base_url=URL))
        self.asyncio = AsyncClient(http=gateway.http)

    def work_off(self) -> None:
        """Let a worker do all planned items."""
        self.run(self.gateway.worker().work_off())

    def listed(self, found: AsyncIterator[T]) -> list[T]:
        """Read an asyncio iterator to its end."""

        async def read() -> list[T]:
            return [each async for each in found]

        return self.run(read())


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        gateway = runner.run(stack.enter_async_context(fake_gateway(tmp_path_factory.mktemp("gateway"))))
        runner.run(gateway.upload("demo", 1))
        yield Journey(gateway, runner)
        runner.run(stack.aclose())


OPTIONS: dict[str, Any] = {
    "dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "max_edits_per_image": 1,
    "limit": 2,
}  # fmt: skip


def test_a_stress_test_runs_from_creation_to_report(journey: Journey) -> None:
    run = journey.sync.stress_tests.create(seed=1, **OPTIONS)
    assert run.run.state == "queued"
    journey.work_off()
    events = list(run.events())
    assert events[-1].state == run.wait().run.state == "completed"
    items = list(run.items())
    assert [item.ordinal for item in items] == list(range(2 * 4))
    summary = run.summary()
    assert summary.counts["planned"] == len(items)
    assert set(summary.models) == {"steady"}
    assert "<html" in run.report()
    made = next(item.result.image for item in items if item.result)
    assert run.image(made).startswith(b"\x89PNG")
    assert journey.sync.stress_tests.get(run.id).run == run.run


def test_the_asyncio_client_runs_a_stress_test_too(journey: Journey) -> None:
    run = journey.run(journey.asyncio.stress_tests.create(seed=2, **OPTIONS))
    journey.work_off()
    events = journey.listed(run.events())
    assert events[-1].state == journey.run(run.wait()).run.state == "completed"
    items = journey.listed(run.items())
    summary = journey.run(run.summary())
    assert summary.counts["planned"] == len(items) == 8
    assert "<html" in journey.run(run.report())
    made = next(item.result.image for item in items if item.result)
    assert journey.run(run.image(made)).startswith(b"\x89PNG")
    assert run.id in {each.id for each in journey.listed(journey.asyncio.stress_tests.list())}


def test_both_clients_prove_a_finding_of_a_run_that_stays_as_it_is(journey: Journey) -> None:
    journey.run(journey.gateway.upload("many", 14, ("sled", "boat")))
    options = OPTIONS | {
        "dataset": "many", "classifiers": ["leaning"], "max_edits_per_image": 3, "limit": 10, "confirm": False
    }  # fmt: skip
    run = journey.sync.stress_tests.create(seed=3, **options)
    journey.work_off()
    before = run.refresh().run
    child = run.prove(1, images=4)
    journey.work_off()
    assert child.wait().parent == run.id
    second = journey.run(journey.asyncio.stress_tests.prove(run.id, finding=1, images=2))
    journey.work_off()
    assert journey.run(second.wait()).parent == run.id
    joined = journey.run(journey.run(journey.asyncio.stress_tests.get(run.id)).finding(1))
    assert joined == run.finding(1)
    assert [each.pairs for each in joined.runs] == [0, 4, 2]
    assert second.run.request_counts.failed == 0
    assert run.refresh().run == before


def test_both_clients_read_the_same_lists(journey: Journey) -> None:
    assert journey.sync.services.list() == journey.run(journey.asyncio.services.list())
    assert journey.sync.classifiers.list() == journey.run(journey.asyncio.classifiers.list())
    assert journey.sync.datasets.list() == journey.run(journey.asyncio.datasets.list())
    assert journey.sync.datasets.get("demo") == journey.run(journey.asyncio.datasets.get("demo"))


def test_a_folder_becomes_a_dataset_and_rejected_files_are_listed(journey: Journey, tmp_path: Path) -> None:
    (tmp_path / "sled").mkdir()
    (tmp_path / "sled" / "broken.png").write_bytes(b"no image")
    for name, upload in (("one", journey.sync.datasets.upload), ("two", journey.asyncio.datasets.upload)):
        answer: Any = upload(tmp_path, name=name)
        added = answer if name == "one" else journey.run(answer)
        assert (added.added, [rejected.code for rejected in added.rejected]) == (0, ["image-undecodable"])
        assert journey.sync.datasets.get(name).n_sources == 0


def test_a_flat_folder_with_a_table_of_labels_becomes_a_dataset(journey: Journey, tmp_path: Path) -> None:
    for number, name in enumerate(("1.png", "2.png", "3.png")):
        (tmp_path / name).write_bytes(encode_png(np.full((9, 9, 3), number, dtype=np.uint8)))
    (tmp_path / "labels.csv").write_text("image,class\n1.png,sled\n2.png,boat\n", encoding="utf-8")
    for name, upload in (("flat", journey.sync.datasets.upload), ("flat-2", journey.asyncio.datasets.upload)):
        answer: Any = upload(tmp_path, name=name)
        added = answer if name == "flat" else journey.run(answer)
        assert (added.added, [rejected.filename for rejected in added.rejected]) == (2, ["3.png"])
        # No class is called otherwise than a folder, as none has one.
        assert added.names == {}
        assert journey.sync.datasets.get(name).classes == ["boat", "sled"]


def test_a_provided_caption_is_the_one_that_is_edited(journey: Journey) -> None:
    told = "a photo of a red boat on the grass by a tree"
    boat = journey.gateway.source("boat", 7) | {"caption": told}
    sled = journey.gateway.source("sled", 7)
    journey.sync.datasets.create(name="captioned")
    journey.sync.datasets.add("captioned", [SourceUpload.model_validate(each) for each in (boat, sled)])
    run = journey.sync.stress_tests.create(seed=1, **OPTIONS | {"dataset": "captioned"})
    journey.work_off()
    captions = {(item.label, item.result.caption) for item in run.items() if item.result}
    assert captions == {("boat", told), ("sled", "a photo of a red sled on the grass next to a dog")}


def test_a_repeated_key_is_one_run_and_another_body_is_refused(journey: Journey) -> None:
    one = journey.sync.stress_tests.create(seed=3, idempotency_key="once", **OPTIONS)
    two = journey.sync.stress_tests.create(seed=3, idempotency_key="once", **OPTIONS)
    assert one.id == two.id
    with pytest.raises(IdempotencyConflict):
        journey.sync.stress_tests.create(seed=4, idempotency_key="once", **OPTIONS)


def test_a_run_is_cancelled_once_and_resumed(journey: Journey) -> None:
    run = journey.sync.stress_tests.create(seed=5, **OPTIONS)
    assert run.cancel().run.state == "cancelled"
    with pytest.raises(RunNotCancellable) as caught:
        run.cancel()
    assert caught.value.request_id
    assert run.resume().run.state == "queued"
    journey.work_off()
    assert run.refresh().run.state == "completed"


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"classifiers": ["absent"]}, UnknownModel, "'absent'"),
        ({"dataset": "absent"}, UnknownDataset, "'absent'"),
    ],
)
def test_both_clients_raise_the_gateway_s_errors(
    journey: Journey, changes: dict[str, Any], error: type[CounterposeError], named: str
) -> None:
    with pytest.raises(error, match=named):
        journey.sync.stress_tests.create(seed=0, **OPTIONS | changes)
    with pytest.raises(error, match=named):
        journey.run(journey.asyncio.stress_tests.create(seed=0, **OPTIONS | changes))


def test_a_missing_run_is_not_found_with_the_request_s_id(journey: Journey) -> None:
    for ask in (
        journey.sync.stress_tests.get,
        lambda run_id: journey.run(journey.asyncio.stress_tests.get(run_id)),
    ):
        with pytest.raises(NotFound) as caught:
            ask("0" * 32)
        assert caught.value.request_id
