"""Browsers' sessions: their end at sign-out, on every gateway, and the cookies that they come in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from counterpose_gateway.http.server import server_of
from counterpose_gateway.ledger import Ledger
from fakes.access_keys import new_access_key
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.problems import problem

KEY = "a-key-of-enough-characters"
OF_HTTPS = "__Host-counterpose_session"
PLAIN = "counterpose_session_8080"
WAIT_SECONDS = 5.0
SECURE_URL = URL.replace("http:", "https:")


async def session(gateway: FakeGateway, key: str = KEY, url: str = URL) -> str:
    """Sign in as a browser that keeps no cookie by itself; return the session."""
    answer = await gateway.http.post("/ui/login", data={"key": key}, headers={"origin": url})
    gateway.http.cookies.clear()
    assert answer.status_code == 303
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2]


async def page(gateway: FakeGateway, *cookies: str, http: httpx.AsyncClient | None = None) -> httpx.Response:
    """Open a page with cookies as they are written."""
    return await (http or gateway.http).get("/ui", headers={"cookie": "; ".join(cookies)})


async def sign_out(gateway: FakeGateway, cookie: str, url: str = URL) -> httpx.Response:
    sent = {"cookie": cookie, "origin": url, "sec-fetch-site": "same-origin"}
    answer = await gateway.http.post("/ui/logout", headers=sent)
    gateway.http.cookies.clear()
    return answer


def again(folder: Path) -> AbstractAsyncContextManager[FakeGateway]:
    """Open another gateway on the ledger that is in the folder."""
    return fake_gateway(folder, api_keys=[KEY], ledger=Ledger(f"sqlite:///{folder / 'ledger.db'}"))


async def until_refused(gateway: FakeGateway, cookie: str) -> float:
    """Ask until a session opens nothing; return the seconds that it took."""
    began = time.monotonic()
    while (await page(gateway, cookie)).status_code == 200:
        assert time.monotonic() < began + WAIT_SECONDS, "the session still opens pages"
        await asyncio.sleep(0.2)
    return time.monotonic() - began


@pytest.mark.fault("T5")
@pytest.mark.parametrize("of", ["settings", "default", "acme"])
async def test_a_session_that_was_signed_out_opens_nothing_at_any_gateway(tmp_path: Path, of: str) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as one, again(tmp_path) as other:
        key = KEY if of == "settings" else new_access_key(one.ledger, tenant=of)[1]
        ours, another = [f"{PLAIN}={await session(one, key)}" for _ in range(2)]
        for gateway in (one, other):
            assert (await page(gateway, ours)).status_code == 200
        assert (await sign_out(one, ours)).headers["location"] == "/ui/login"
        # Here at once, elsewhere soon; and a script is sent to the login, too.
        assert (await page(one, ours)).status_code == 303
        polled = await one.http.get("/ui/runs/x/live", headers={"cookie": ours, "hx-request": "true"})
        assert polled.status_code == 401
        await until_refused(other, ours)
        # It cannot be signed out again; another session of the key goes on, as the key does.
        assert (await sign_out(other, ours)).status_code == 401
        for gateway in (one, other):
            assert (await page(gateway, another)).status_code == 200
        held = {"authorization": f"Bearer {key}"}
        assert (await one.http.get("/v1/runs", headers=held)).status_code == 200
    async with again(tmp_path) as restarted:
        assert (await page(restarted, ours)).status_code == 303
        assert (await page(restarted, another)).status_code == 200


async def test_who_signs_out_ends_no_session_but_its_own(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        ours = await session(gateway)
        end, number, signature = ours.split(".")
        for forged in (f"{end}.{number}.{signature[::-1]}", f"{number}.{number}", number, ""):
            for held in ({}, {"authorization": f"Bearer {KEY}"}):
                sent = {"cookie": f"{PLAIN}={forged}", "origin": URL} | held
                answer = await gateway.http.post("/ui/logout", headers=sent)
                assert answer.status_code == (303 if held else 401)
        assert (await page(gateway, f"{PLAIN}={ours}")).status_code == 200


async def test_without_keys_a_cookie_of_any_form_is_taken_away(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as without_keys:
        assert (await sign_out(without_keys, f"{PLAIN}=x")).status_code == 303


@asynccontextmanager
async def behind_tls(gateway: FakeGateway, proxy: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client behind a proxy that ends TLS, as `serve` sees it."""
    config = server_of(gateway.app, gateway.settings).config
    config.load()
    transport = httpx.ASGITransport(config.loaded_app, client=(proxy, 40_000))
    async with httpx.AsyncClient(
        transport=transport, base_url=URL, headers={"x-forwarded-proto": "https"}
    ) as http:
        yield http


@pytest.mark.fault("T5")
async def test_a_page_by_https_has_a_cookie_that_no_other_host_can_set(tmp_path: Path) -> None:
    named = ["10.1.0.0/16"]
    async with fake_gateway(tmp_path, api_keys=[KEY], trusted_proxies=named) as gateway:
        async with behind_tls(gateway, "10.1.0.7") as http:
            # The proxy's word is enough, without an origin.
            answer = await http.post("/ui/login", data={"key": KEY})
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"{OF_HTTPS}=")
            assert {"Secure", "Path=/", "HttpOnly"} <= {part.strip() for part in cookie.split(";")}
            assert "Domain" not in cookie
            ours = cookie.partition(";")[0].partition("=")[2]
            http.cookies.clear()
            assert (await page(gateway, f"{OF_HTTPS}={ours}", http=http)).status_code == 200
            # A page without TLS of the same host, or a sibling's, could have set it under any other name.
            for name in (PLAIN, "counterpose_session", "counterpose_session_443", OF_HTTPS.lower()):
                assert (await page(gateway, f"{name}={ours}", http=http)).status_code == 303
            out = await http.post(
                "/ui/logout", headers={"cookie": f"{OF_HTTPS}={ours}", "origin": SECURE_URL}
            )
            assert out.headers["set-cookie"].startswith(f"{OF_HTTPS}=")
            assert {"Secure", "Path=/", "Max-Age=0"} <= {
                part.strip() for part in out.headers["set-cookie"].split(";")
            }
        # Of a proxy without a name, the browser's own word tells; a stranger's header does not.
        async with behind_tls(gateway, "10.2.0.7") as http:
            for origin, name in ((SECURE_URL, OF_HTTPS), (URL, PLAIN)):
                answer = await http.post("/ui/login", data={"key": KEY}, headers={"origin": origin})
                assert answer.headers["set-cookie"].startswith(f"{name}=")


@pytest.mark.fault("T5")
@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:8080", PLAIN), ("127.0.0.1:9090", "counterpose_session_9090"),
        ("127.0.0.1", "counterpose_session_80"), ("localhost:", "counterpose_session_80"),
        ("[::1]:8123", "counterpose_session_8123"), ("[::1]", "counterpose_session_80"),
    ],
)  # fmt: skip
async def test_without_tls_a_cookie_is_of_one_port_alone(tmp_path: Path, host: str, name: str) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        sent = {"host": host, "origin": f"http://{host.rstrip(':')}"}
        answer = await gateway.http.post("/ui/login", data={"key": KEY}, headers=sent)
        gateway.http.cookies.clear()
        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert cookie.partition("=")[0] == name
        assert (await gateway.http.get("/ui", headers={"host": host, "cookie": cookie})).status_code == 200
        there = {"host": "127.0.0.1:7777", "cookie": cookie}
        assert (await gateway.http.get("/ui", headers=there)).status_code == 303


@pytest.mark.fault("T5")
@pytest.mark.parametrize("name", [OF_HTTPS, PLAIN])
async def test_of_two_cookies_of_a_name_neither_is_taken(tmp_path: Path, name: str) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        ours = f"{name}={await session(gateway)}"
        theirs = f"{name}={await session(gateway, new_access_key(gateway.ledger, tenant='evil')[1])}"
        assert (await page(gateway, ours, "a=b", "c")).status_code == 200
        for cookies in (
            [ours, theirs],
            [theirs, ours],
            [ours, ours],
            [f"{name}=", ours],
            [ours, f" {name} =x"],
        ):
            if cookies[1].startswith(" ") and " =" in cookies[1]:
                # A name that ends in a space is another one.
                assert (await page(gateway, *cookies)).status_code == 200
                continue
            found = problem(await page(gateway, *cookies), 400, "malformed-request")
            assert name in found.detail
        two = [("cookie", ours), ("cookie", theirs)]
        problem(await gateway.http.get("/ui", headers=two), 400, "malformed-request")
        # Who is asked to delete them can read it and sign in again; the API looks at no cookie.
        assert (await gateway.http.get("/ui/login", headers=two)).status_code == 200
        held = {"authorization": f"Bearer {KEY}", "cookie": f"{ours}; {theirs}"}
        assert (await gateway.http.get("/v1/runs", headers=held)).status_code == 200


@pytest.mark.fault("T5")
@pytest.mark.parametrize("written", [b"\xa0%s", b"\x85%s", b"%s\xa0", b"\x1f%s", b'"%s"'], ids=repr)
async def test_a_name_that_only_looks_like_ours_is_another(tmp_path: Path, written: bytes) -> None:
    """Browsers let any host set it, because for them the prefix is not at its beginning."""
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        whole = written.replace(b"%s", OF_HTTPS.encode()) + b"=" + (await session(gateway)).encode()
        answer = await gateway.http.get("/ui", headers=[(b"cookie", whole)])
        assert answer.status_code == 303
