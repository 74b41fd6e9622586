"""Under ``/v1/runs`` a run answers what its kind has; what another kind has is refused by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contract.live import seeded, token_services
from counterpose_core.kinds import KINDS, RunKind
from counterpose_gateway.methods import METHODS
from fakes.gateway import FakeGateway, fake_gateway
from fakes.openapi_document import document, kind_of
from fakes.problems import problem
from fakes.ray_jobs_api import FakeRayJobs, clusters_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = [
    (method.upper(), path, kind)
    for path, methods in document()["paths"].items()
    for method in methods
    if (kind := kind_of(path)) is not None
]
BODIES: dict[str, dict[str, Any]] = {
    "prove": {"images": 4}, "generate": {"class_name": "sled", "seed": 1}, "register": {"name": "taken"},
    "descriptions": {"descriptions": ["a sled at night"]}, "in the snow": {"author": "ann", "threshold": 0.2},
}  # fmt: skip
CHOICES = {"object_percentile": "40", "found": "true", "closer": "true", "direction": "0.3"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[FakeGateway, dict[str, str]]]:
    """A gateway with an ended run of every kind, and their ids."""
    folder = tmp_path_factory.mktemp("gateway")
    clusters = clusters_of(FakeRayJobs(), folder)
    async with fake_gateway(folder, ports=token_services, clusters=clusters) as gateway:
        known = await seeded(gateway, gateway.worker())
        yield gateway, {kind: ids[0] for kind, ids in known.runs.items()}


async def test_every_kind_is_here(runs: tuple[FakeGateway, dict[str, str]]) -> None:
    assert set(runs[1]) == set(KINDS)
    assert len(OWN) == 8


@pytest.mark.parametrize("kind", KINDS)
async def test_summary_report_and_items_are_those_of_the_kind(
    runs: tuple[FakeGateway, dict[str, str]], kind: RunKind
) -> None:
    gateway, ids = runs
    run = f"/v1/runs/{ids[kind]}"
    summary = (await gateway.http.get(f"{run}/summary")).json()
    assert summary["kind"] == kind
    assert METHODS[kind].summary.model_validate(summary).kind == kind
    report = await gateway.http.get(f"{run}/report")
    assert report.headers["content-type"].startswith("text/html")
    page = (await gateway.http.get(f"{run}/items")).json()
    items = [METHODS[kind].item.model_validate(item) for item in page["items"]]
    one = (await gateway.http.get(f"{run}/items/{items[0].id}")).json()
    assert METHODS[kind].item.model_validate(one) == items[0]
    assert items[0].kind in KINDS[kind].items


@pytest.mark.parametrize(("method", "path", "kind"), OWN)
async def test_what_one_kind_has_is_not_found_of_another(
    runs: tuple[FakeGateway, dict[str, str]], method: str, path: str, kind: str
) -> None:
    gateway, ids = runs
    for other, run in ids.items():
        if other != kind:
            address = path.format(run_id=run, number=1, shift="in the snow")
            body = BODIES.get(address.rpartition("/")[2])
            answer = await gateway.http.request(method, address, json=body, params={"shift": "in the snow"})
            found = problem(answer, 404, "not-found")
            assert found.detail == f"run {run!r} is a {other}, not a {kind}, which alone has this"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHOICES)
async def test_a_choice_of_another_kind_is_refused_by_its_name(
    runs: tuple[FakeGateway, dict[str, str]], kind: RunKind, name: str
) -> None:
    gateway, ids = runs
    parts = ["export"] if METHODS[kind].export is not None else []
    parts += [] if name == "found" else ["summary", "report"]
    for part in parts:
        answer = await gateway.http.get(f"/v1/runs/{ids[kind]}/{part}", params={name: CHOICES[name]})
        if name in METHODS[kind].choices:
            assert answer.status_code == 200, (part, answer.text)
        else:
            found = problem(answer, 422, "invalid-request")
            assert f"the parameter {name!r} is of runs of the kind " in found.detail
            assert f"is a {KINDS[kind].title.lower()}; leave it out" in found.detail
            assert [each.pointer for each in found.errors] == [f"/{name}"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if METHODS[kind].export is None])
async def test_a_run_without_images_of_its_own_has_no_export(
    runs: tuple[FakeGateway, dict[str, str]], kind: RunKind
) -> None:
    gateway, ids = runs
    found = problem(await gateway.http.get(f"/v1/runs/{ids[kind]}/export"), 404, "not-found")
    assert f"is a {kind}, which has no images of its own to export" in found.detail
