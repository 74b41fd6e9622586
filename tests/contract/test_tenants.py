"""T4: what a tenant asks of another's objects is answered as for objects that never were, on every route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from contract.live import MAX_ITEMS, STRESS_TEST, Known, seeded, token_services
from contract.tenant_cases import Asked, Ids, of_operations, of_pages, told
from counterpose_core.contract.webhooks import WebhookCreate
from fakes.access_keys import gateway_of
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.openapi_document import kind_of
from fakes.ray_jobs_api import FakeRayJobs, clusters_of

of_module = pytest.mark.asyncio(loop_scope="module")

MARKS = ("quagga", "zebrafish")
"""Words that the owner alone uses."""


@dataclass(frozen=True)
class Tenants:
    """A tenant with an object of every kind, and one without any."""

    owner: FakeGateway
    stranger: FakeGateway
    known: Known
    own: Ids
    deleted: Ids
    never: Ids

    @property
    def secrets(self) -> list[str]:
        """Texts that only the owner may be told."""
        runs = [run for of_kind in self.known.runs.values() for run in of_kind]
        return [*MARKS, *runs, *self.known.jobs, self.own.webhook, self.own.image, self.own.token]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenants]:
    """Both, on one gateway."""
    folder = tmp_path_factory.mktemp("tenants")
    settings: dict[str, Any] = {"max_items_per_run": MAX_ITEMS, "import_from": ("memory://",)}
    clusters = clusters_of(FakeRayJobs(), folder)
    async with fake_gateway(folder, ports=token_services, clusters=clusters, **settings) as gateway:
        owner, stranger = gateway_of(gateway, "acme"), gateway_of(gateway, "default")
        known = await seeded(owner, gateway.worker())
        await owner.upload("quagga-7", 2)
        await stranger.upload("demo", 1)
        file = {"class_name": "sled", "content_base64": "AAAA"}
        tokens = (await owner.http.post("/v1/token-files", json={"files": [file]})).json()["tokens"]
        own = Ids(
            runs={kind: ids[0] for kind, ids in known.runs.items()} | {"stress-test": known.baseline},
            items=known.item | {"stress-test": f"{known.baseline}.0"}, dataset="quagga-7",
            image=owner.ledger.datasets.sources("wide")[-1].image, job=known.jobs[0], webhook=known.webhook,
            token=tokens["sled"],
        )  # fmt: skip
        # A child of a run, about the dataset: what lists find by either.
        await asyncio.to_thread(
            owner.ledger.runs.create, kind="stress-test", dataset=own.dataset, items=[], fingerprint="f",
            config=owner.ledger.runs.get(known.baseline).resolved_config, parent=known.baseline,
        )  # fmt: skip
        for run in own.runs.values():
            await asyncio.to_thread(owner.ledger.runs.rename, run, "zebrafish")
        yield Tenants(owner, stranger, known, own, _deleted(owner, known, own), _never(own))


def _deleted(owner: FakeGateway, known: Known, own: Ids) -> Ids:
    gone = {kind: ids[1] for kind, ids in known.runs.items() if len(ids) > 1}
    for run in gone.values():
        owner.ledger.runs.delete(run)
    hook = owner.ledger.webhooks.create(WebhookCreate(url="https://hooks.example.com/b")).id
    owner.ledger.webhooks.delete(hook)
    return replace(own, runs=gone, items={kind: f"{run}.0" for kind, run in gone.items()}, webhook=hook)


def _never(own: Ids) -> Ids:
    """Ids as long as those that there are."""
    runs = {kind: f"{number:032x}" for number, kind in enumerate(own.runs)}
    items = {kind: f"{run}.{own.items[kind].rpartition('.')[2]}" for kind, run in runs.items()}
    return Ids(runs, items, "quokka-7", "e" * 64, "f" * 32, "d" * 32, "c" * 64)


def cases() -> list[tuple[str, Any]]:
    """Every request of an operation or a page that names an object."""
    found = [(name, asked) for name, some in of_operations() for asked in some]
    return [*found, *of_pages()]


def test_every_operation_has_a_case() -> None:
    asked = dict(of_operations())
    # A listing without a filter is asked as it is: it must name nothing of another's.
    assert all(asked.values())
    assert len(asked) > 45


@of_module
@pytest.mark.fault("T4", "B58", "B62")
async def test_anothers_object_is_answered_as_one_that_never_was(tenants: Tenants) -> None:
    before = await _state(tenants)
    wrong: list[str] = []
    for name, case in cases():
        never = await case(tenants.never).of(tenants.stranger.http)
        foreign = await case(tenants.own).of(tenants.stranger.http)
        if told(foreign, tenants.own) != told(never, tenants.never):
            wrong.append(f"{name}: {told(foreign, tenants.own)} / {told(never, tenants.never)}")
        wrong += [f"{name}: {leak}" for leak in _leaks(case(tenants.own), foreign.text, tenants)]
    assert wrong == []
    assert await _state(tenants) == before


@of_module
@pytest.mark.fault("T4")
async def test_a_deleted_object_of_another_is_answered_so_too(tenants: Tenants) -> None:
    for name, case in cases():
        kind = kind_of(name.partition(" ")[2]) or "stress-test"
        if not ("{run_id}" in name and kind in tenants.deleted.runs) and "{webhook_id}" not in name:
            continue
        never = told(await case(tenants.never).of(tenants.stranger.http), tenants.never)
        assert told(await case(tenants.deleted).of(tenants.stranger.http), tenants.deleted) == never, name
        # Its owner is told no more than that it is gone.
        assert (await case(tenants.deleted).of(tenants.owner.http)).status_code == 404, name


@of_module
@pytest.mark.fault("T4")
async def test_the_owner_is_answered_otherwise(tenants: Tenants) -> None:
    alike: list[str] = []
    for name, case in cases():
        if name.startswith("DELETE") or name.endswith("/delete"):
            continue
        asked = case(tenants.own).case
        if "?" in asked and not asked.startswith("GET /v1/runs"):
            # Lists of other kinds have nothing about that dataset or that run.
            continue
        own = await case(tenants.own).of(tenants.owner.http)
        foreign = await case(tenants.own).of(tenants.stranger.http)
        if told(own, tenants.own) == told(foreign, tenants.own):
            alike.append(f"{asked}: {foreign.status_code} {foreign.text[:200]}")
        # The run has no finding, and says how many it has.
        shown = own.status_code == 200 or "/findings/" in name
        assert shown or not name.startswith("GET /v1"), (name, own.text)
    # Or a case would be answered so for a reason of its own, and show nothing.
    assert alike == []


@of_module
@pytest.mark.fault("T4")
async def test_a_stream_that_its_owner_follows_is_no_ones_else(tenants: Tenants) -> None:
    made = await tenants.owner.http.post("/v1/stress-tests", json=STRESS_TEST | {"seed": 99})
    path = f"/v1/runs/{made.json()['id']}"
    following = asyncio.create_task(tenants.owner.http.get(f"{path}/events"))
    waiting = asyncio.create_task(tenants.owner.http.get(f"{path}/wait", params={"timeout": 5}))
    try:
        await asyncio.sleep(0.2)
        for asked in (f"{path}/events", f"{path}/wait", f"{path}", f"/ui/runs/{made.json()['id']}/live"):
            assert (await tenants.stranger.http.get(asked)).status_code == 404
    finally:
        for task in (following, waiting):
            task.cancel()
        await asyncio.gather(following, waiting, return_exceptions=True)


@of_module
@pytest.mark.fault("T4")
async def test_a_link_shows_what_its_signer_sees(tenants: Tenants) -> None:
    path = {"path": f"/v1/artifacts/{tenants.own.image}.png"}
    for signer, status in ((tenants.owner, 200), (tenants.stranger, 404)):
        link = (await signer.http.post("/v1/signed-urls", json=path)).json()["url"]
        without_key = httpx.AsyncClient(transport=signer.http._transport, base_url=URL)
        assert (await without_key.get(link)).status_code == status


@of_module
@pytest.mark.fault("T4", "B53")
async def test_a_cursor_of_another_tenant_is_none(tenants: Tenants) -> None:
    for path, cursor in tenants.known.cursors.items():
        if "{" not in path:
            answer = await tenants.stranger.http.get(path, params={"after": cursor})
            assert answer.status_code == 422, path


def _leaks(asked: Asked, answered: str, tenants: Tenants) -> list[str]:
    sent = f"{asked.path} {asked.params} {asked.body}"
    return [secret for secret in tenants.secrets if secret in answered and secret not in sent]


async def _state(tenants: Tenants) -> list[object]:
    ledger = tenants.owner.ledger
    runs = [ledger.runs.get(run) for run in tenants.own.runs.values()]
    return [
        *runs,
        ledger.datasets.all(),
        ledger.webhooks.all(),
        ledger.jobs.page(),
        len(ledger.runs.page().runs),
    ]
