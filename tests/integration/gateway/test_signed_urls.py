"""Links without a key: what they open, how they end, and what of an altered one is told."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
import pytest_asyncio
from starlette.requests import Request

from counterpose_core.errors import SignedUrlRefused
from counterpose_gateway.access import key_ring, key_watch
from counterpose_gateway.access.key_ring import KeyRing
from counterpose_gateway.http.signed_urls import TOLERANCE_SECONDS, SignedUrls
from counterpose_gateway.images.png import png_of
from counterpose_gateway.routes import exports
from fakes.access_keys import new_access_key
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNS = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
SETTINGS_KEY = "a-key-of-the-settings"
WEEK = 7 * 24 * 3600


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """A gateway with an ended run; its client sends no key by itself."""
    folder = tmp_path_factory.mktemp("gateway")
    async with fake_gateway(folder, api_keys=[SETTINGS_KEY], refused_keys_per_minute=0) as opened:
        opened.http.headers["authorization"] = f"Bearer {SETTINGS_KEY}"
        await opened.upload("demo", 1)
        assert (await opened.http.post(RUNS, json=BODY)).status_code == 202
        await opened.worker().work_off()
        del opened.http.headers["authorization"]
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def report(gateway: FakeGateway) -> str:
    """The path of the run's report."""
    listed = await gateway.http.get("/v1/runs", headers=key(SETTINGS_KEY))
    return f"/v1/runs/{listed.json()['runs'][0]['id']}/report"


def key(whole: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"authorization": f"Bearer {whole}"}


async def signed(gateway: FakeGateway, path: str, whole: str = SETTINGS_KEY, **more: Any) -> str:
    """The link to a path that a key signs."""
    answer = await gateway.http.post("/v1/signed-urls", json={"path": path} | more, headers=key(whole))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


def altered(link: str, **changes: str) -> str:
    """The link with other parameters."""
    parts = urlsplit(link)
    return f"{parts.path}?{urlencode(dict(parse_qsl(parts.query)) | changes)}"


def is_refused(answer: httpx.Response, reason: str) -> bool:
    """Whether a link is refused for a reason."""
    return reason in str(problem(answer, 403, "signed-url-refused").detail)


@pytest.mark.fault("B61")
async def test_a_link_shows_the_report_the_export_and_an_image_without_a_key(
    gateway: FakeGateway, report: str
) -> None:
    items = report.replace("/report", "/items?state=done")
    found = (await gateway.http.get(items, headers=key(SETTINGS_KEY))).json()
    image = f"/v1/artifacts/{found['items'][0]['source_image']}.png"
    _, ledgers = new_access_key(gateway.ledger)
    for whole in (SETTINGS_KEY, ledgers):
        for path in (report, f"{report}?part=first-screen", report.replace("report", "export"), image):
            problem(await gateway.http.get(path), 401, "unauthorized")
            link = await signed(gateway, path, whole)
            assert whole not in link
            own = await gateway.http.get(path, headers=key(SETTINGS_KEY))
            shown = await gateway.http.get(link)
            assert shown.status_code == own.status_code == 200, path
            # An export is written anew each time.
            assert shown.content == own.content or path.endswith("export"), path
    shown = await gateway.http.get(await signed(gateway, report))
    assert shown.headers["referrer-policy"] == "no-referrer"


async def test_an_answer_to_a_link_may_take_long_and_ends_with_the_key_that_signed_it(
    gateway: FakeGateway, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is looked at again and again meanwhile, by its own name and not by the link's."""
    items = report.replace("/report", "/items?state=done")
    found = (await gateway.http.get(items, headers=key(SETTINGS_KEY))).json()
    image = f"/v1/artifacts/{found['items'][0]['source_image']}.png"
    made, ledgers = new_access_key(gateway.ledger)
    links = [await signed(gateway, image, whole) for whole in (SETTINGS_KEY, ledgers)]
    monkeypatch.setattr(key_watch, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(key_ring, "KNOWN_SECONDS", 0.0)
    waits, begun, free = 0.3, Event(), Event()

    def slow(*given: Any) -> bytes:
        begun.set()
        free.wait(waits)
        return png_of(*given)

    monkeypatch.setattr(exports, "png_of", slow)
    assert [(await gateway.http.get(link)).status_code for link in links] == [200, 200]
    begun.clear()
    waits = 100.0
    reading = asyncio.create_task(gateway.http.get(links[1]))
    await asyncio.to_thread(begun.wait, 100)
    gateway.ledger.access.end_key(replace(made, revoked_at=dt.datetime.now(dt.UTC)))
    problem(await reading, 401, "unauthorized")
    free.set()


@pytest.mark.fault("B61")
async def test_a_link_opens_its_own_path_query_and_method_alone(gateway: FakeGateway, report: str) -> None:
    link = await signed(gateway, f"{report}?part=first-screen")
    assert (await gateway.http.get(link)).status_code == 200
    signature = dict(parse_qsl(urlsplit(link).query))["signature"]
    for other in (
        link.replace("/report?", "/export?"),
        link.replace("part=first-screen&", ""),
        altered(link, part="whole"),
        altered(link, expires="99999999999"),
        altered(link, expires="soon"),
        altered(link, signature=signature[:-1] + ("0" if signature[-1] != "0" else "1")),
        altered(link, signature="é"),
        altered(link, **{"key-id": "0" * 16}),
    ):
        assert is_refused(await gateway.http.get(other), "was altered"), other
    run = report.removesuffix("/report")
    for method, path in (
        ("DELETE", run), ("POST", f"{run}/cancel"), ("GET", run), ("GET", f"{run}/summary"),
        ("GET", "/v1/runs"), ("POST", report),
    ):  # fmt: skip
        answer = await gateway.http.request(method, f"{path}?{urlsplit(link).query}")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), (method, path)
    # A key that is sent is the one that counts.
    problem(await gateway.http.get(link, headers=key("cp_no")), 401, "unauthorized")


@pytest.mark.fault("B61", "T4")
async def test_a_link_shows_what_its_key_s_tenant_sees(gateway: FakeGateway, report: str) -> None:
    _, acme = new_access_key(gateway.ledger, tenant="acme")
    problem(await gateway.http.get(await signed(gateway, report, acme)), 404, "not-found")


@pytest.mark.fault("B61")
async def test_a_link_ends_with_its_key(gateway: FakeGateway, report: str) -> None:
    made, whole = new_access_key(gateway.ledger)
    link = await signed(gateway, report, whole)
    gateway.ledger.access.end_key(replace(made, revoked_at=dt.datetime.now(dt.UTC)))
    # Another gateway, which has not met the key yet.
    links = SignedUrls([SETTINGS_KEY.encode()], KeyRing([SETTINGS_KEY.encode()], gateway.ledger.access))
    answer = await at(links, link)
    assert answer is not None
    assert "not valid any more" in answer


@pytest.mark.fault("B61")
@pytest.mark.parametrize("hours", [-24, -1, 0, 1])
async def test_a_link_ends_at_its_time_by_whatever_clock_signed_it(
    gateway: FakeGateway, report: str, hours: int
) -> None:
    clock = Clock(1_800_000_000.0 + hours * 3600)
    own = [SETTINGS_KEY.encode()]
    made = await SignedUrls(own, KeyRing(own), clock).sign(SETTINGS_KEY, report, 3600)
    reader = Clock(clock.now)
    links = SignedUrls(own, KeyRing(own), reader)
    reader.now = clock.now + 3600 + TOLERANCE_SECONDS
    assert await at(links, made.url) is None
    reader.now += 1
    refusal = await at(links, made.url)
    assert refusal is not None
    assert "ends at" in refusal


@pytest.mark.fault("B61")
async def test_a_link_of_a_clock_that_runs_ahead_is_refused_beyond_the_tolerance(report: str) -> None:
    own, clock, reader = [SETTINGS_KEY.encode()], Clock(1_800_000_000.0), Clock(1_800_000_000.0)
    made = await SignedUrls(own, KeyRing(own), clock).sign(SETTINGS_KEY, report, WEEK)
    links = SignedUrls(own, KeyRing(own), reader)
    reader.now = clock.now - TOLERANCE_SECONDS
    assert await at(links, made.url) is None
    reader.now -= 1
    assert await at(links, made.url) is not None


@pytest.mark.fault("B61")
async def test_what_cannot_be_signed_is_named(gateway: FakeGateway, report: str, tmp_path: Path) -> None:
    sign, headers = "/v1/signed-urls", key(SETTINGS_KEY)
    foreign = f"https://evil.example{report}"
    for path in ("/v1/runs", "/metrics", "/v1/runs/x/items", foreign, "/v1/artifacts/x.png", f"{report}\n"):
        answer = await gateway.http.post(sign, json={"path": path}, headers=headers)
        assert problem(answer, 422, "invalid-request").errors[0].pointer == "/path"
    for seconds in (0, 59, WEEK + 1):
        body = {"path": report, "expires_in": seconds}
        answer = await gateway.http.post(sign, json=body, headers=headers)
        assert problem(answer, 422, "invalid-request").errors[0].pointer == "/expires_in"
    twice = {"path": await signed(gateway, report)}
    problem(await gateway.http.post(sign, json=twice, headers=headers), 422, "invalid-request")
    _, reading = new_access_key(gateway.ledger, "read")
    answer = await gateway.http.post(sign, json={"path": report}, headers=key(reading))
    problem(answer, 403, "forbidden")
    async with fake_gateway(tmp_path) as open_to_all:
        answer = await open_to_all.http.post(sign, json={"path": report})
        assert answer.json() == {"url": report, "expires_at": None}


class Clock:
    """Shows the time that a test sets."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def at(links: SignedUrls, link: str) -> str | None:
    """Why a gateway refuses a link; None if it does not."""
    parts = urlsplit(link)
    asked = {"path": parts.path, "query_string": parts.query.encode(), "headers": []}
    request = Request({"type": "http", "method": "GET"} | asked)
    try:
        await links.holder(request)
    except SignedUrlRefused as error:
        return error.detail
    return None
