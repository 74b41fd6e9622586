"""Requests that name an object, for each operation of the OpenAPI document and each page: the table of T4."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import APIRouter
from fastapi.routing import APIRoute

from contract.live import ADVERSARIAL_DATASET, BUG_HUNT, STRESS_TEST
from counterpose_gateway.app import bare_app
from counterpose_gateway.ui import PAGES
from fakes.benchmarks import benchmark_body
from fakes.gateway import URL
from fakes.openapi_document import kind_of, parameters_of
from fakes.ray_jobs_api import NAME


@dataclass(frozen=True)
class Ids:
    """What requests name: the objects of a tenant, or some that never were."""

    runs: Mapping[str, str]
    """A run of each kind."""
    items: Mapping[str, str]
    dataset: str
    image: str
    job: str
    webhook: str
    token: str

    def hidden_in(self, text: str) -> str:
        """Return a text without these ids, so that what is left can be compared."""
        names = {self.dataset: "dataset", self.image: "image", self.job: "job", self.webhook: "webhook"}
        names |= {run: f"run-{kind}" for kind, run in self.runs.items()}
        # An item's id begins with its run's.
        names |= {self.token: "token"} | {item: f"item-{kind}" for kind, item in self.items.items()}
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, f"<{names[name]}>")
        return text


@dataclass(frozen=True)
class Asked:
    """A request of a case, and whether it may change what it names."""

    case: str
    method: str
    path: str
    params: Mapping[str, str]
    body: Any = None
    form: Mapping[str, str] | None = None

    async def of(self, http: httpx.AsyncClient) -> httpx.Response:
        """Send it."""
        headers = {"origin": URL} if self.form is not None else {}
        return await http.request(
            self.method, self.path, params=dict(self.params), json=self.body,
            data=None if self.form is None else dict(self.form), headers=headers,
        )  # fmt: skip


Bodies = Callable[[Ids], dict[str, Any]]

NAMES_NOTHING = {
    "GET /v1/classifiers", "GET /v1/services", "GET /healthz", "GET /readyz", "GET /metrics",
    # They make what they name, for whoever asks; `test_two_tenants_use_one_name` has another's name.
    "POST /v1/datasets", "POST /v1/datasets/{name}/import", "POST /v1/token-files", "POST /v1/webhooks",
    # It signs an address and looks at nothing; `test_a_link_shows_what_its_signer_sees` follows such a link.
    "POST /v1/signed-urls",
}  # fmt: skip
"""Operations that find no object of a tenant."""

BODIES: dict[str, list[Bodies]] = {
    "SourcesAdd": [lambda ids: {"sources": [{"filename": "a.png", "label": "a", "content_base64": "AAAA"}]}],
    "DatasetChange": [lambda ids: {"expires_in": 86_400}],
    "StressTestCreate": [lambda ids: STRESS_TEST | {"dataset": ids.dataset}],
    "StressTestQuestion": [lambda ids: STRESS_TEST | {"dataset": ids.dataset}],
    "RunResume": [lambda ids: {}],
    "RunRename": [lambda ids: {"name": "mine"}],
    "ProofCreate": [lambda ids: {"images": 4}, lambda ids: {"images": 4, "dataset": ids.dataset}],
    "DatasetInterfaceCreate": [
        lambda ids: {"dataset": ids.dataset, "seed": 0},
        lambda ids: {"dataset": "demo", "seed": 0, "classes": ["sled"], "tokens": {"sled": ids.token}},
    ],
    "ImagesCreate": [lambda ids: {"class_name": "sled", "n": 1, "seed": 1}],
    "ShiftBenchmarkCreate": [
        lambda ids: benchmark_body(ids.runs["dataset-interface"], n=1, real=2, steps=20, seed=7)
    ],
    "ShiftThresholdSet": [lambda ids: {"author": "ann", "shows": {}}],
    "BugHuntCreate": [
        lambda ids: BUG_HUNT
        | {"seed": 1, "descriptions": ["a sled at night"], "photographs": _photographs(ids)}
    ],
    "BugHuntQuestion": [
        lambda ids: BUG_HUNT
        | {"seed": 1, "descriptions": ["a sled at night"], "photographs": _photographs(ids)}
    ],
    "DescriptionsCreate": [
        lambda ids: {"descriptions": ["a sled at night"], "images": 8},
        lambda ids: {"descriptions": ["a sled at night"], "images": 8, "photographs": _photographs(ids)},
    ],
    "AdversarialDatasetCreate": [
        lambda ids: _adversarial({"kind": "dataset", "dataset": ids.dataset}),
        lambda ids: _adversarial({"kind": "bug-hunt", "run": ids.runs["bug-hunt"]}),
        lambda ids: ADVERSARIAL_DATASET | {"seed": 1, "reference": ids.dataset},
    ],
    "DatasetRegistration": [lambda ids: {"name": "taken"}],
    "TransferCreate": [
        lambda ids: {"source": ids.runs["adversarial-dataset"], "classifiers": ["steady"], "seed": 1}
    ],
    "GateCreate": [lambda ids: {"baseline": ids.runs["stress-test"], "classifiers": ["leaning"], "seed": 1}],
    "RegressionSetOf": [lambda ids: {"baseline": ids.runs["stress-test"]}],
    "JobCreate": [
        lambda ids: {
            "cluster": NAME, "workers": 1,
            "run": {"kind": "stress-test", "request": STRESS_TEST | {"dataset": ids.dataset}},
        }
    ],
}  # fmt: skip
"""Bodies that name an object, or that go with an address that does, by their models."""


def _photographs(ids: Ids) -> dict[str, str]:
    return {"described": ids.dataset, "alone": ids.dataset}


def _adversarial(seeds: dict[str, str]) -> dict[str, Any]:
    return ADVERSARIAL_DATASET | {"seed": 1, "seeds": seeds}


FORMS = {"rename": {"name": "mine"}, "prove": {"images": "4"}}


def of_operations() -> Iterator[tuple[str, list[Callable[[Ids], Asked]]]]:
    """Yield each operation of the document with its requests; raises KeyError for one without a case."""
    for path, methods in bare_app().openapi()["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            if name in NAMES_NOTHING:
                continue
            yield name, [*_requests(name, method, path, operation)]


def _requests(
    name: str, method: str, path: str, operation: dict[str, Any]
) -> Iterator[Callable[[Ids], Asked]]:
    named = {each["name"]: each for each in parameters_of(operation)}
    needed = {key: _needed(key) for key, each in named.items() if each["in"] == "query" and each["required"]}
    content = operation.get("requestBody", {}).get("content", {})
    bodies: list[Bodies | None] = [None]
    if content:
        schema = content["application/json"]["schema"]
        # A body that may be left out has a choice in its place.
        schema = next(iter(schema.get("anyOf", ())), schema)
        bodies = [*BODIES[schema["$ref"].rpartition("/")[2]]]
    kind = kind_of(path) or "stress-test"
    for number, body in enumerate(bodies):
        yield lambda ids, body=body, number=number: Asked(  # type: ignore[misc]  # mypy knows no defaults here
            f"{name} {number}", method.upper(), address(path, kind, ids), needed,
            None if body is None else body(ids),
        )  # fmt: skip
    for key in ("parent", "dataset"):
        if key in named:
            yield lambda ids, key=key: Asked(  # type: ignore[misc]
                f"{name}?{key}", method.upper(), path,
                {key: ids.dataset if key == "dataset" else ids.runs["stress-test"]},
            )  # fmt: skip


def of_pages() -> Iterator[tuple[str, Callable[[Ids], Asked]]]:
    """Yield each page that names an object, with its request."""
    for route in _routes(PAGES):
        if "{" not in route.path or "/static/" in route.path or "{rest" in route.path:
            continue
        for method in sorted(route.methods or ()):
            form = FORMS.get(route.path.rpartition("/")[2], {}) if method == "POST" else None
            yield (
                f"{method} {route.path}",
                lambda ids, method=method, path=route.path, form=form: Asked(  # type: ignore[misc]
                    f"{method} {path}", method, address(path, "stress-test", ids), {}, form=form
                ),
            )


def _routes(router: APIRouter) -> Iterator[APIRoute]:
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from _routes(route.original_router)  # type: ignore[attr-defined]  # FastAPI's included one


def address(path: str, kind: str, ids: Ids) -> str:
    """Return a path with the ids in it; raises KeyError for a parameter that no case has."""
    known = {
        "run_id": ids.runs.get(kind, ""), "item_id": ids.items.get(kind, ""), "name": ids.dataset,
        "ref": ids.image, "job_id": ids.job, "webhook_id": ids.webhook, "number": "1",
        "shift": "in the snow",
    }  # fmt: skip
    return path.format_map(known)


def _needed(parameter: str) -> str:
    return {"shift": "in the snow"}[parameter]


def told(answer: httpx.Response, ids: Ids) -> str:
    """Return all of an answer that could differ, without the ids: its status, headers and body."""
    # What is left of a minute's requests is about who asks.
    passing = {"date", "x-request-id", "content-length", "ratelimit"}
    headers = {name: value for name, value in answer.headers.items() if name not in passing}
    text = answer.text
    if "request_id" in text and answer.headers["content-type"].startswith("application/problem"):
        text = json.dumps({**answer.json(), "request_id": ""})
    return ids.hidden_in(f"{answer.status_code} {headers} {text}")
