"""One error for each code of the closed list, raised by the product itself.

Each text names the offending input and says what to do about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import DEADLINE_HEADER, SECRET_HEADER
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.classifiers import DescribeRequest
from counterpose_core.contract.suite_fit import KnownImages
from counterpose_core.editing.attention_control import PromptToPrompt
from counterpose_core.errors import CounterposeError, error_classes
from counterpose_core.images.clip_metrics import unit
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import ClassifiersSuite, load_suite
from counterpose_core.text.plain_text import check_caption
from counterpose_gateway.http import edge
from counterpose_gateway.images.intake import checked_classes, register_folder
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.services.clients import services_of
from counterpose_http import ProblemMiddleware
from counterpose_services.batching.outcomes import settle
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from counterpose_services.http import RequestGuard, answer_while_connected
from counterpose_services.models.model_folder import require_readable
from counterpose_services.settings import ServiceSettings
from fakes.bad_files import gif_of, saved
from fakes.budgets import missing_price, spent_budget
from fakes.chat_server import NO_LABELS
from fakes.connections import connected, raw_refusal
from fakes.damaged_ledgers import damaged_ledger, other_ledger
from fakes.gateway import fake_gateway
from fakes.ledgers import create_run, finish_all, lease, new_ledger
from fakes.ledgers import done as good
from fakes.problems import raise_problem
from fakes.ray_jobs_api import NAME, FakeRayJobs, clusters_of
from fakes.refusals import altered_link, change_by_a_reader, failed_disk, full_store, refused_word
from fakes.service_http import answering, caller_over
from fakes.store import image
from fakes.world import fake_suite

REF = "a" * 64
SECRET = "a secret of many characters"
ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}

Provoke = Callable[[Path], Awaitable[object]]


async def ask(app: ASGIApp, headers: dict[str, str]) -> None:
    """Raise what ``app`` refuses, as a client does."""
    transport = httpx.ASGITransport(app=ProblemMiddleware(app, server="the scorer"))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as http:
        raise_problem(await http.get("/v1/score", headers={SECRET_HEADER: SECRET} | headers))


def through_gateway(method: str, path: str, **options: Any) -> Provoke:
    """Send one request to a gateway with a small dataset."""
    settings = options.pop("settings", {})

    async def provoke(folder: Path) -> None:
        async with fake_gateway(folder, **settings) as gateway:
            await gateway.upload("demo", 1)
            raise_problem(await gateway.http.request(method, path, **options))

    return provoke


def from_captioner(*answers: httpx.Response | Exception) -> Provoke:
    """Ask a captioner that answers so."""

    async def provoke(folder: Path) -> None:
        handle, _ = answering(*answers)
        request = CaptionRequest(items=[CaptionItem(image=REF)])
        await services_of(caller_over(handle)).captioner.caption(request)

    return provoke


def through_guard(
    headers: dict[str, str] | None = None, *, seconds: float = 0.0, **settings: object
) -> Provoke:
    """Send two requests at once to a guarded service that takes ``seconds``."""

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def provoke(folder: Path) -> None:
        given = ServiceSettings.model_validate({"secret": SECRET} | settings)
        guard = RequestGuard(slow, settings=given, service="scorer")
        await asyncio.gather(*(ask(guard, headers or {}) for _ in range(2)))

    return provoke


async def corrupt_artifact(folder: Path) -> None:
    store = BlobStore(str(folder))
    ref = store.put(b"some bytes")
    (folder / "blobs" / ref[:2] / ref).write_bytes(b"other bytes")
    store.get(ref)


async def missing_artifact(folder: Path) -> None:
    BlobStore(str(folder)).get(REF)


async def unhooked_attention(folder: Path) -> None:
    none = torch.zeros(1, dtype=torch.bool)
    PromptToPrompt(
        sources=1, source_of=torch.zeros(1, dtype=torch.long), cross=None, injected=none, collect=True
    ).word_maps()


async def departed_client(folder: Path) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.Event().wait()

    messages: list[Message] = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    await answer_while_connected(wait, {"type": "http", "path": "/v1/edit"}, receive, send)


async def confusable_classes(folder: Path) -> None:
    checked_classes(["Bus", "bus"])


async def empty_folder(folder: Path) -> None:
    (folder / "images").mkdir()
    register_folder("demo", folder / "images", new_ledger(folder), BlobStore(str(folder / "store")))


def claimed_twice(second_body: str) -> Provoke:
    async def provoke(folder: Path) -> None:
        ledger = new_ledger(folder)
        ledger.idempotency.claim("uploads", "my-key", "one")
        ledger.idempotency.claim("uploads", "my-key", second_body)

    return provoke


async def expired_lease(folder: Path) -> None:
    ledger = new_ledger(folder)
    create_run(ledger)
    (item, *_) = lease(ledger).items
    ledger.items.finish(item.id, item.fence + 1, good())


async def run_not_ended(folder: Path) -> None:
    async with fake_gateway(folder) as gateway:
        await gateway.upload("demo", 1)
        run = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
        raise_problem(await gateway.http.post(f"/v1/runs/{run}/findings/1/prove", json={"images": 2}))


async def foreign_images(folder: Path) -> None:
    known = KnownImages(caption_nats=0.0, image_text=1.0, psnr_db=99.0, preset="quick", images=1)
    suite = fake_suite().model_copy(update={"known_images": known})
    async with fake_gateway(folder, suite=suite) as gateway:
        await gateway.upload("demo", 3)
        run = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
        await gateway.worker().work_off()
        problem = gateway.ledger.runs.get(run).problem
        assert problem is not None
        raise problem.error()


async def kept_run(folder: Path) -> None:
    ledger = new_ledger(folder)
    ledger.runs.delete(create_run(ledger))


def on_ended_run(verb: str) -> Provoke:
    async def provoke(folder: Path) -> None:
        ledger = new_ledger(folder)
        run = create_run(ledger)
        finish_all(ledger)
        getattr(ledger.runs, verb)(run)

    return provoke


async def large_image(folder: Path) -> None:
    decode_image(image("large", size=16), max_pixels=100)


async def damaged_image(folder: Path) -> None:
    decode_image(saved("PNG")[:-40])


async def animation(folder: Path) -> None:
    decode_image(gif_of(2))


async def defect(folder: Path) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    await ask(broken, {"x-request-id": "request-7"})


async def pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x04\x95" + bytes(64))
    require_readable(folder / "model.safetensors")


async def zero_embedding(folder: Path) -> None:
    unit(np.array([[1.0, 0.0], [0.0, 0.0]]))


async def long_caption(folder: Path) -> None:
    check_caption("bus " * 500, most=4000)


async def slow_body(folder: Path) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge, "BODY_SECONDS", 0.01)
        await through_gateway("POST", ROOT, content=trickle())(folder)


async def large_item(folder: Path) -> None:
    def run(prepared: list[int]) -> list[int]:
        raise torch.OutOfMemoryError

    (outcome,) = settle([1], prepare=int, run=run, finish=lambda item, raw: raw, batch=1)
    outcome.unwrap()


async def large_headers(folder: Path) -> None:
    async with connected(no_application) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx: " + b"a" * 20_000)
        raise raw_refusal(await reader.read(), 431).error()


async def no_application(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the request was to be refused before")


async def refused_token(folder: Path) -> None:
    ray = FakeRayJobs(token="another")
    await clusters_of(ray, folder).named(NAME).check()


async def unended_import(folder: Path) -> None:
    async with fake_gateway(folder, import_from=("memory://",)) as gateway:
        await gateway.http.post("/v1/datasets/late/import", json={"url": "memory://bucket/a.tar"})
        raise_problem(await gateway.http.post(ROOT, json=BODY | {"dataset": "late"}))


async def missing_shard(folder: Path) -> None:
    Storage(("memory://",)).stamp("memory://bucket/nowhere.tar")


async def gone_function(folder: Path) -> None:
    absent = httpx.MockTransport(lambda request: httpx.Response(404))
    store = BlobStore(f"memory://{folder}")
    registry = ClassifierRegistry(ClassifiersSuite(), folder, store, ClassifierOptions(), transport=absent)
    address = f"http://127.0.0.1:4711/{'5' * 40}/v2/models/mine/versions/1"
    ClassifiersEngine(registry, cache_bytes=0).describe(DescribeRequest(classifier="mine", function=address))


async def unknown_suite(folder: Path) -> None:
    load_suite("nonsense")


CASES: dict[str, tuple[Provoke, str, str]] = {
    **NO_LABELS,
    "artifact-corrupt": (corrupt_artifact, "under '", "run again what made them"),
    "artifact-missing": (missing_artifact, repr(REF), "check the digest"),
    "attention-not-hooked": (unhooked_attention, "cross-attention layer", "set local_blend to false"),
    "backend-unavailable": (
        from_captioner(httpx.ConnectError("refused")), "the captioner", "check that it runs, then retry"
    ),
    "bad-backend-output": (
        from_captioner(httpx.Response(200, json={"outcomes": [], "model": {"id": "m", "revision": "0"}})),
        "0 outcomes for 1 items", "check that it runs the gateway's version",
    ),
    "budget-spent": (spent_budget, "2 images", "resume it with a larger one"),
    "cancelled": (departed_client, "'/v1/edit'", "send the request again"),
    "class-map-mismatch": (confusable_classes, "'Bus' and 'bus'", "rename one"),
    "cluster-refused": (refused_token, "'cluster'", "COUNTERPOSE_CLUSTER_TOKEN_FILES"),
    "dataset-not-ready": (unended_import, "dataset 'late'", "wait until its import has ended"),
    "dataset-empty": (empty_folder, "images'", "put PNG, JPEG or WebP files"),
    "deadline-exceeded": (
        through_guard({DEADLINE_HEADER: "0.01"}, seconds=5.0), "'/v1/score'", "send fewer items"
    ),
    "disk-failed": (failed_disk, "store", "start anew"),
    "forbidden": (change_by_a_reader, "'write'", "a key that has it"),
    "foreign-origin": (
        through_gateway("POST", ROOT, json=BODY, headers={"origin": "http://elsewhere.test"}),
        "'http://elsewhere.test'", "only this gateway's own pages",
    ),
    "headers-too-large": (large_headers, "16384 bytes", "send smaller ones"),
    "function-gone": (gone_function, "'mine'", "check that its program still runs"),
    "idempotency-conflict": (claimed_twice("two"), "'my-key'", "under a new key"),
    "idempotency-in-flight": (claimed_twice("one"), "'my-key'", "retry later"),
    "image-too-large": (large_image, "16 x 16", "scale it down"),
    "image-undecodable": (damaged_image, "bytes", "export the image again"),
    "images-outside-suite": (foreign_images, "suite 'miniature'", "choose a suite with published weights"),
    "internal-error": (defect, "'request-7'", "log"),
    "invalid-request": (through_gateway("POST", ROOT, json=BODY | {"preset": "slow"}), "'slow'", "it offers"),
    "lease-lost": (expired_lease, "item '", "drop its result"),
    "malformed-request": (
        through_gateway("GET", ROOT, headers={"host": "[::1"}), "'[::1'", "send these alone"
    ),
    "ledger-mismatch": (other_ledger, "this ledger is empty", "or start once with --accept-ledger"),
    "ledger-damaged": (damaged_ledger, "not a database", "restore its database from the last backup"),
    "method-not-allowed": (through_gateway("DELETE", ROOT), "DELETE '/v1/stress-tests'", "answers"),
    "model-format-refused": (pickled_weights, "'model.safetensors'", "convert the weights to safetensors"),
    "not-acceptable": (
        through_gateway("GET", "/v1/runs", headers={"accept": "a/b"}), "'a/b'", "send application/json"
    ),
    "import-refused": (
        through_gateway("POST", "/v1/datasets/mine/import", json={"url": "s3://bucket/a.tar"}),
        "'s3://bucket/a.tar'", "COUNTERPOSE_IMPORT_FROM",
    ),
    "not-found": (through_gateway("GET", "/v1/runs/nobody"), "'nobody'", "list the runs"),
    "numerical-failure": (zero_embedding, "embedding 1 of 2", "check the encoder"),
    "payload-too-large": (
        through_gateway("POST", ROOT, content=b" " * 5000, settings={"max_body_bytes": 4000}),
        "4000 bytes", "send it in parts",
    ),
    "policy-refused": (refused_word, "'gore'", "say it otherwise"),
    "price-missing": (missing_price, "'editor-1 at images.example'", "add it to the prices"),
    "prompt-too-long": (long_caption, "'bus bus", "shorten it"),
    "quota-exceeded": (
        through_gateway("POST", ROOT, json=BODY, settings={"max_items_per_run": 2}),
        "32 items", "ask for fewer",
    ),
    "rate-limited": (through_guard(seconds=0.2, max_queue=1), "the queue is full (1", "retry later"),
    "request-timeout": (slow_body, "the body", "send it faster"),
    "resource-exhausted": (large_item, "this item", "use a larger device"),
    "run-not-cancellable": (on_ended_run("cancel"), "run '", "only a run that has not ended"),
    "run-not-deletable": (kept_run, "run '", "cancel it, then delete it"),
    "run-not-ended": (run_not_ended, "run '", "wait for its end"),
    "run-not-resumable": (on_ended_run("resume"), "run '", "only an ended run"),
    "shard-unreadable": (missing_shard, "'memory://bucket/nowhere.tar'", "restore it, or leave it out"),
    "signed-url-refused": (altered_link, "'/v1/runs/x/report'", "ask whoever shared it"),
    "storage-full": (full_store, "10 bytes", "free some space"),
    "unauthorized": (through_guard({SECRET_HEADER: "wrong"}), SECRET_HEADER, "COUNTERPOSE_SECRET_FILE"),
    "unknown-dataset": (
        through_gateway("POST", ROOT, json=BODY | {"dataset": "nobody"}), "'nobody'", "list those that exist"
    ),
    "unknown-edit-type": (
        through_gateway("POST", ROOT, json=BODY | {"edit_types": ["moon"]}), "/edit_types/0", "must be"
    ),
    "unknown-model": (unknown_suite, "'nonsense'", "choose one of"),
    "unsupported-media": (
        through_gateway("POST", ROOT, content=b"{}", headers={"content-encoding": "gzip"}),
        "'gzip'", "send the body unencoded",
    ),
}  # fmt: skip


def test_the_cases_cover_every_code_that_is_raised() -> None:
    assert set(CASES) == set(error_classes())


@pytest.mark.parametrize("code", CASES)
async def test_an_error_names_the_offending_input_and_says_what_to_do(code: str, tmp_path: Path) -> None:
    provoke, names, advises = CASES[code]
    with pytest.raises(CounterposeError) as caught:
        await provoke(tmp_path)
    assert caught.value.code == code
    assert names in caught.value.detail
    assert advises in caught.value.detail
    # What stands before the advice is the cause: one text, not a title repeated.
    assert caught.value.detail != caught.value.title


async def test_an_unsupported_image_format_error_lists_the_supported_ones(tmp_path: Path) -> None:
    with pytest.raises(CounterposeError, match="convert it to a still PNG, JPEG or WebP image"):
        await animation(tmp_path)
