"""Every method of both clients sends the request that its URL, verb and body say, and reads the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.contract.interventions import Intervention
from counterpose_core.errors import InvalidRequest
from counterpose_core.kinds import KINDS
from fakes.adversarial_requests import ADVERSARIAL, adversarial
from fakes.benchmark_requests import BENCHMARKED, benchmark
from fakes.estimates import ESTIMATES, estimate_answer, hunt_estimate_answer
from fakes.gate_summaries import A_SET, GATED, gate, set_answer
from fakes.hunt_requests import HUNTED, hunt
from fakes.sdk import Session, a_run, a_summary, figure, ok, run_answer, summary_answer
from fakes.token_requests import SENT, tokens_answer, upload_tokens
from fakes.transfer_requests import TRANSFERRED, transfer

RUNS = "/v1/stress-tests"
BENCHMARKS = "/v1/shift-benchmarks"
FOOLING = "/v1/adversarial-datasets"
RESOURCES = (
    "stress_tests", "dataset_interfaces", "shift_benchmarks", "bug_hunts", "adversarial_datasets",
    "transfers", "gates", "datasets", "token_files", "classifiers", "services", "jobs", "webhooks",
)  # fmt: skip
REF = "a" * 64
DATASET = {
    "name": "mine", "classes": ["bus"], "n_sources": 1, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
ADDED = {"added": 1, "rejected": []}
LINK = {"url": "/v1/runs/run-1/report?signature=5f", "expires_at": "2026-01-01T00:00:00Z"}
ITEM = {
    "id": "i1", "ordinal": 0, "kind": "edit", "item_group": "s", "source_image": REF, "label": "bus",
    "state": "done",
}  # fmt: skip
SOURCE = SourceUpload(filename="1.png", label="bus", content_base64="AAAA")


def create(client: Any) -> Any:
    """Start a stress test with every option set."""
    return client.stress_tests.create(
        dataset="demo",
        classifiers=["leaning-resnet"],
        edit_types=["domain"],
        max_edits_per_image=2,
        interventions=["bus=>tram,taxi", Intervention(added="in the snow")],
        lance_r_edits_per_image=3,
        preset="lance",
        selection="released",
        limit=7,
        refused_words=["rusty"],
        exclude=["bus/1.png"],
        confirm=False,
        confirm_share=0.4,
        near_duplicates=0.999, strength=(0.2, 0.9), thresholds={"direction": 0.3, "closer": False},
        outside_suite="continue", seed=3, idempotency_key="mine",
    )  # fmt: skip


CREATED = {
    "dataset": "demo", "classifiers": ["leaning-resnet"], "edit_types": ["domain"], "max_edits_per_image": 2,
    "lance_r_edits_per_image": 3, "preset": "lance", "selection": "released", "limit": 7, "seed": 3,
    "refused_words": ["rusty"], "exclude": ["bus/1.png"], "confirm": False, "confirm_share": 0.4,
    "near_duplicates": 0.999, "strength": [0.2, 0.9], "thresholds": {"direction": 0.3, "closer": False},
    "outside_suite": "continue", "interventions": [
        {"removed": "bus", "added": "tram"}, {"removed": "bus", "added": "taxi"},
        {"added": "in the snow"},
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """One method, the request it must send and an answer to it."""

    name: str
    ask: Callable[[Any], Any]
    verb: str
    path: str
    answer: Callable[[], httpx.Response]
    body: dict[str, Any] | None = None
    query: Sequence[tuple[str, str]] = ()


def reading(resource: str) -> list[Method]:
    """The methods that read runs of one kind."""
    (kind,) = (name for name, kind in KINDS.items() if kind.resource == resource)
    page = {"runs": [json.loads(a_run(kind=kind).model_dump_json())]}
    return [
        Method(
            f"{resource}.get", lambda c: getattr(c, resource).get("run-1"), "GET", "/v1/runs/run-1",
            lambda: run_answer(kind=kind),
        ),
        Method(
            f"{resource}.list", lambda c: getattr(c, resource).list(), "GET", "/v1/runs", lambda: ok(page),
            query=[("limit", "100"), ("kind", kind)],
        ),
    ]  # fmt: skip


STORES_NOTHING = (*ESTIMATES, set_answer)

METHODS = (
    Method("stress_tests.create", create, "POST", RUNS, run_answer, body=CREATED),
    *reading("stress_tests"),
    Method(
        "stress_tests.prove",
        lambda c: c.stress_tests.prove("run-1", finding=2, images=30, dataset="more", seed=4),
        "POST", "/v1/runs/run-1/findings/2/prove", run_answer,
        body={"images": 30, "dataset": "more", "seed": 4},
    ),
    Method(
        "stress_tests.estimate",
        lambda c: c.stress_tests.estimate(dataset="demo", confirm=False),
        "POST", f"{RUNS}/estimate", estimate_answer,
        # What can be proven does not depend on the classifiers.
        body={"dataset": "demo", "classifiers": [], "confirm": False, "seed": 0},
    ),
    Method(
        "bug_hunts.estimate",
        lambda c: c.bug_hunts.estimate(labels=["fly"], sampling={"name": "inverse"}, steps=None),
        "POST", "/v1/bug-hunts/estimate", hunt_estimate_answer,
        body={
            "labels": ["fly"], "classifiers": [], "sampling": {"name": "inverse"}, "seed": 0,
        },
    ),
    Method(
        "dataset_interfaces.create",
        lambda c: c.dataset_interfaces.create(
            dataset="demo", classes=["bus"], token_init="pet", prompts="captions", vectors=2, steps=100,
            limit=8, seed=3, idempotency_key="mine",
        ),
        "POST", "/v1/dataset-interfaces", run_answer,
        body={
            "dataset": "demo", "classes": ["bus"], "token_init": "pet", "prompts": "captions", "vectors": 2,
            "steps": 100, "limit": 8, "seed": 3,
        },
    ),
    *reading("dataset_interfaces"),
    Method("shift_benchmarks.create", benchmark, "POST", BENCHMARKS, run_answer, body=BENCHMARKED),
    *reading("shift_benchmarks"),
    Method("bug_hunts.create", hunt, "POST", "/v1/bug-hunts", run_answer, body=HUNTED),
    *reading("bug_hunts"),
    Method("adversarial_datasets.create", adversarial, "POST", FOOLING, run_answer, body=ADVERSARIAL),
    *reading("adversarial_datasets"),
    Method("transfers.create", transfer, "POST", "/v1/transfers", run_answer, body=TRANSFERRED),
    *reading("transfers"),
    Method("gates.create", gate, "POST", "/v1/gates", run_answer, body=GATED),
    Method(
        "gates.freeze", lambda c: c.gates.freeze(A_SET.baseline), "POST", "/v1/gates/freeze",
        set_answer, body={"baseline": A_SET.baseline},
    ),
    *reading("gates"),
    Method("token_files.upload", upload_tokens, "POST", "/v1/token-files", tokens_answer, body=SENT),
    Method(
        "datasets.create", lambda c: c.datasets.create(name="mine", classes=["bus"]), "POST", "/v1/datasets",
        lambda: ok(DATASET), body={"name": "mine", "classes": ["bus"]},
    ),
    Method("datasets.get", lambda c: c.datasets.get("mine"), "GET", "/v1/datasets/mine", lambda: ok(DATASET)),
    Method(
        "datasets.list", lambda c: c.datasets.list(), "GET", "/v1/datasets",
        lambda: ok({"datasets": [DATASET]}),
    ),
    Method(
        "datasets.add", lambda c: c.datasets.add("mine", [SOURCE]), "POST", "/v1/datasets/mine/sources",
        lambda: ok(ADDED),
        body={"sources": [{"filename": "1.png", "label": "bus", "content_base64": "AAAA"}]},
    ),
    Method(
        "classifiers.list", lambda c: c.classifiers.list(), "GET", "/v1/classifiers",
        lambda: ok({"classifiers": []}),
    ),
    Method("services.list", lambda c: c.services.list(), "GET", "/v1/services", lambda: ok({"services": []})),
)  # fmt: skip

HANDLE_METHODS = (
    Method("refresh", lambda r: r.refresh(), "GET", "/v1/runs/run-1", run_answer),
    Method("cancel", lambda r: r.cancel(), "POST", "/v1/runs/run-1/cancel", run_answer),
    Method("resume", lambda r: r.resume(), "POST", "/v1/runs/run-1/resume", run_answer),
    Method(
        "wait", lambda r: r.wait(), "GET", "/v1/runs/run-1/wait", lambda: run_answer("completed", 3),
        query=[("timeout", "25.0")],
    ),
    Method(
        "summary", lambda r: r.summary(), "GET", "/v1/runs/run-1/summary",
        lambda: summary_answer(a_summary(steady=figure())),
    ),
    Method(
        "items", lambda r: r.items(), "GET", "/v1/runs/run-1/items", lambda: ok({"items": [ITEM]}),
        query=[("limit", "200")],
    ),
    Method(
        "save_report", lambda r: r.save_report("/dev/null"), "GET", "/v1/runs/run-1/report",
        lambda: httpx.Response(200, text="<html>"),
    ),
    Method(
        "report", lambda r: r.report(), "GET", "/v1/runs/run-1/report",
        lambda: httpx.Response(200, text="<html>"),
    ),
    Method(
        "share", lambda r: r.share(expires_in=90), "POST", "/v1/signed-urls", lambda: ok(LINK),
        {"path": "/v1/runs/run-1/report", "expires_in": 90},
    ),
    Method(
        "image", lambda r: r.image(REF), "GET", f"/v1/artifacts/{REF}.png",
        lambda: httpx.Response(200, content=b"png"),
    ),
)  # fmt: skip


def check(method: Method, request: httpx.Request) -> None:
    """The request is the one that the table says."""
    assert (request.method, request.url.path) == (method.verb, method.path)
    assert sorted(request.url.params.multi_items()) == sorted(method.query)
    assert (json.loads(request.content) if request.content else None) == method.body


def by_name(methods: Sequence[Method]) -> list[Any]:
    """Parameters that are called as their methods."""
    return [pytest.param(method, id=method.name) for method in methods]


@pytest.mark.parametrize("method", by_name(METHODS))
def test_a_method_of_the_client_sends_its_request(kind: str, method: Method) -> None:
    session = Session(kind, method.answer())
    session(method.ask)
    check(method, session.seen[0])


@pytest.mark.parametrize("method", by_name(HANDLE_METHODS))
def test_a_method_of_a_run_sends_its_request(kind: str, method: Method) -> None:
    session = Session(kind, run_answer(), method.answer())
    run = session(lambda client: client.stress_tests.get("run-1"))
    session(lambda _: method.ask(run))
    check(method, session.seen[1])


@pytest.mark.parametrize("method", by_name(METHODS))
def test_both_clients_send_the_same_bytes(method: Method) -> None:
    sent = []
    for kind in ("sync", "async"):
        session = Session(kind, method.answer())
        session(method.ask)
        (request,) = session.seen
        headers = {name: value for name, value in request.headers.items() if name != IDEMPOTENCY_HEADER}
        sent.append((request.method, str(request.url), headers, request.content))
    assert sent[0] == sent[1]


def test_every_public_method_is_in_the_tables() -> None:
    session = Session("sync")
    # These send several requests, and have tests of their own.
    imports = {"datasets.cancel_import", "datasets.wait", "datasets.import_from"}
    jobs = {"jobs.cancel", "jobs.get", "jobs.list", "jobs.submit"}
    ends = {"datasets.expire", "datasets.delete", "stress_tests.apply", "stress_tests.compare_editors"}
    webhooks = {"webhooks.create", "webhooks.delete", "webhooks.get", "webhooks.list"}
    several = {"datasets.upload", "datasets.upload_pairs"} | imports | jobs | webhooks | ends
    found = {
        f"{resource}.{name}"
        for resource in RESOURCES
        for name in dir(getattr(session.client, resource))
        if not name.startswith("_")
    }
    assert found == {method.name for method in METHODS} | several


def test_the_blocking_and_the_asyncio_classes_have_the_same_methods() -> None:
    blocking, asyncio_client = Session("sync").client, Session("async").client
    for resource in RESOURCES:
        names = [
            {name for name in dir(getattr(client, resource)) if not name.startswith("_")}
            for client in (blocking, asyncio_client)
        ]
        assert names[0] == names[1]


@pytest.mark.parametrize(
    "method", by_name([m for m in METHODS if m.verb == "POST" and m.answer not in STORES_NOTHING])
)
def test_every_post_that_creates_something_carries_an_idempotency_key(kind: str, method: Method) -> None:
    session = Session(kind, method.answer())
    session(method.ask)
    assert session.seen[0].headers[IDEMPOTENCY_HEADER]


def test_every_creation_has_its_own_key_unless_the_caller_gives_one(kind: str) -> None:
    session = Session(kind, run_answer(), run_answer(), run_answer())
    for _ in range(2):
        session(lambda client: client.stress_tests.create(dataset="demo", classifiers=["a"], seed=0))
    session(create)
    keys = [request.headers[IDEMPOTENCY_HEADER] for request in session.seen]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


@pytest.mark.parametrize("name", ["../../v1/services", "a/b", "a?b=c", "a#b", "%2e"])
def test_a_name_never_leads_to_another_path(kind: str, name: str) -> None:
    session = Session(kind, run_answer(), ok(DATASET))
    session(lambda client: client.stress_tests.get(name))
    session(lambda client: client.datasets.get(name))
    for request, root in zip(session.seen, ("/v1/runs", "/v1/datasets"), strict=True):
        raw = request.url.raw_path.decode()
        assert raw.startswith(f"{root}/")
        assert raw.count("/") == 3
        assert "?" not in raw


def test_each_page_is_requested_with_the_cursor_of_the_previous_one(kind: str) -> None:
    runs = [json.loads(a_run(run_id=f"run-{number}").model_dump_json()) for number in range(3)]
    session = Session(kind, ok({"runs": runs[:2], "after": "c1"}), ok({"runs": runs[2:], "after": None}))
    found = session(lambda client: client.stress_tests.list())
    assert [run.id for run in found] == ["run-0", "run-1", "run-2"]
    assert session.seen[1].url.params["after"] == "c1"


def test_items_are_fetched_page_by_page(kind: str) -> None:
    pages = [ok({"items": [ITEM], "after": "c1"}), ok({"items": [ITEM | {"id": "i2"}], "after": None})]
    session = Session(kind, run_answer(), *pages)
    run = session(lambda client: client.stress_tests.get("run-1"))
    assert [item.id for item in session(lambda _: run.items())] == ["i1", "i2"]
    assert session.seen[2].url.params["after"] == "c1"


def test_the_second_page_is_not_requested_before_it_is_needed() -> None:
    session = Session("sync", ok({"runs": [json.loads(a_run().model_dump_json())], "after": "c1"}))
    assert next(session.client.stress_tests.list()).id == "run-1"
    assert len(session.seen) == 1


def strange(text: str) -> str:
    """The same JSON with an unknown field: on top, in every object of a list, in every figure.

    Not in maps from names that the gateway chooses: there one key more is one entry more.
    """

    def grown(value: Any, known: bool) -> Any:
        if isinstance(value, dict):
            more = {"from_the_future": {"x": 1}} if known or "estimate" in value else {}
            return more | {key: grown(each, False) for key, each in value.items()}
        return [grown(each, True) for each in value] if isinstance(value, list) else value

    return json.dumps(grown(json.loads(text), True))


@pytest.mark.parametrize("method", by_name([m for m in METHODS if "list" in m.name or "get" in m.name]))
def test_unknown_fields_of_a_response_are_ignored(kind: str, method: Method) -> None:
    plain, grown = Session(kind, method.answer()), Session(kind, ok(strange(method.answer().text)))
    assert repr(plain(method.ask)) == repr(grown(method.ask))


def test_a_summary_with_unknown_fields_is_read(kind: str) -> None:
    summary = a_summary(steady=figure())
    session = Session(kind, run_answer(), ok(strange(summary.model_dump_json(by_alias=True))))
    run = session(lambda client: client.stress_tests.get("run-1"))
    assert session(lambda _: run.summary()) == summary


def test_a_request_that_the_contract_rejects_is_not_sent(kind: str) -> None:
    session = Session(kind)
    with pytest.raises(InvalidRequest, match="classifiers"):
        session(
            lambda client: client.stress_tests.create(
                dataset="demo", classifiers=["../../etc/passwd"], seed=0
            )
        )
    assert session.seen == []


def test_an_upload_creates_the_dataset_and_sends_its_images(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    for number in range(33):
        (tmp_path / "bus" / f"{number:02}.png").write_bytes(bytes([number + 1]))
    first = {"added": 31, "rejected": [{"filename": "00.png", "code": "image-undecodable", "detail": "no"}]}
    session = Session(kind, ok(DATASET), ok(first), ok(ADDED))
    added = session(
        lambda client: client.datasets.upload(tmp_path, name="mine", captions={"bus/32.png": "a red bus"})
    )
    paths = ["/v1/datasets", "/v1/datasets/mine/sources", "/v1/datasets/mine/sources"]
    assert [request.url.path for request in session.seen] == paths
    last = json.loads(session.seen[2].content)["sources"]
    assert [(source["filename"], source["caption"]) for source in last] == [("32.png", "a red bus")]
    assert (added.added, [rejected.filename for rejected in added.rejected]) == (32, ["00.png"])


def test_images_without_captions_are_left_to_the_captioner(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus" / "1.png").write_bytes(b"x")
    session = Session(kind, ok(DATASET), ok(ADDED))
    session(lambda client: client.datasets.upload(tmp_path, name="mine"))
    assert json.loads(session.seen[1].content)["sources"][0]["caption"] is None
