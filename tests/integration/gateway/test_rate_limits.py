"""Too many requests of one key, and too many keys from one address, as a caller sees them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from counterpose_gateway.http.server import server_of
from counterpose_gateway.settings import GatewaySettings, settings_from
from fakes.access_keys import new_access_key
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.openapi_document import codes_of, document
from fakes.problems import problem


def key_of(whole: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"authorization": f"Bearer {whole}"}


async def test_a_key_that_asks_too_often_is_told_when_to_come_back_and_others_go_on(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, requests_per_minute=3) as gateway:
        (_, busy), (_, other) = new_access_key(gateway.ledger), new_access_key(gateway.ledger, "read")
        served = [await gateway.http.get("/v1/datasets", headers=key_of(busy)) for _ in range(3)]
        assert [each.headers["ratelimit"] for each in served] == [
            f'"requests";r={left};t=20' for left in (2, 1, 0)
        ]
        answer = await gateway.http.get("/v1/datasets", headers=key_of(busy))
        found = problem(answer, 429, "rate-limited")
        assert (found.retryable, answer.headers["retry-after"]) == (True, "20")
        assert answer.headers["ratelimit-policy"] == '"requests";q=3;w=60'
        assert answer.headers["ratelimit"] == '"requests";r=0;t=20'
        assert "COUNTERPOSE_REQUESTS_PER_MINUTE" in found.detail
        assert (await gateway.http.get("/v1/datasets", headers=key_of(other))).status_code == 200
        # The pages' files and health cost nothing.
        for path in ("/healthz", "/readyz", "/ui/static/pages.css"):
            free = await gateway.http.get(path, headers=key_of(busy))
            assert (free.status_code, free.headers.get("ratelimit")) == (200, None), path


@pytest.mark.fault("B52", "T5")
async def test_guessing_keys_is_refused_by_address_and_a_right_guess_is_as_wrong(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, refused_keys_per_minute=4) as gateway:
        (_, known), (_, guessed) = new_access_key(gateway.ledger), new_access_key(gateway.ledger)
        assert (await gateway.http.get("/v1/datasets", headers=key_of(known))).status_code == 200
        signing_in = {"key": "cp_no", "next": "/ui"}
        origin = {"origin": URL}
        assert (await gateway.http.post("/ui/login", data=signing_in, headers=origin)).status_code == 401
        for _ in range(3):
            problem(await gateway.http.get("/v1/datasets", headers=key_of("cp_no")), 401, "unauthorized")
        told = []
        for whole in ("cp_no", guessed):
            answer = await gateway.http.get("/v1/datasets", headers=key_of(whole))
            # The clock goes on: the seconds that are left may be one fewer.
            told.append(re.sub(r"\d+", "#", problem(answer, 429, "rate-limited").detail))
            assert answer.headers["retry-after"] in ("14", "15")
        assert told[0] == told[1]
        login = await gateway.http.post("/ui/login", data=signing_in | {"key": guessed}, headers=origin)
        assert (login.status_code, "set-cookie" in login.headers) == (429, False)
        assert (await gateway.http.get("/v1/datasets", headers=key_of(known))).status_code == 200


FORGED = {
    "one that turns": [("x-forwarded-for", "203.0.113.{}")],
    "two that turn": [("x-forwarded-for", "198.51.100.{}"), ("x-forwarded-for", "::{}")],
    "of IPv6": [("x-forwarded-for", "2001:db8:{}::1")],
    "no address": [("x-forwarded-for", "nobody-{}")],
    "of others": [("forwarded", "for=203.0.113.{}"), ("x-real-ip", "203.0.113.{}")],
}
PROXY, OTHER = ("10.1.2.3", 40_000), ("10.2.0.1", 40_000)


@asynccontextmanager
async def through_server(
    gateway: FakeGateway, client: tuple[str, int], **settings: object
) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls from an address, by what `serve` puts before the application."""
    config = server_of(gateway.app, gateway.settings.model_copy(update=settings)).config
    config.load()
    transport = httpx.ASGITransport(config.loaded_app, client=client)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
        yield http


async def guesses(http: httpx.AsyncClient, forged: str, times: int = 8) -> list[int]:
    """Guess some keys, each with another address in the headers; return the statuses."""
    asked = []
    for turn in range(times):
        told = [(name, value.format(turn)) for name, value in FORGED[forged]]
        asked.append(await http.get("/v1/datasets", headers=[*told, ("authorization", f"Bearer cp_{turn}")]))
    return [each.status_code for each in asked]


@pytest.mark.fault("B52", "T5")
@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize(
    "client", [("127.0.0.1", 40_000), ("::1", 40_000), PROXY], ids=lambda client: client[0]
)
async def test_no_caller_takes_another_address_to_go_on_guessing(
    tmp_path: Path, client: tuple[str, int], forged: str
) -> None:
    own = GatewaySettings().trusted_proxies
    async with (
        fake_gateway(tmp_path, api_keys=["a-key-of-enough-characters"], refused_keys_per_minute=4) as gateway,
        through_server(gateway, client, trusted_proxies=own) as http,
    ):
        assert await guesses(http, forged) == [401] * 4 + [429] * 4


async def test_only_a_proxy_that_is_named_tells_whose_guesses_they_are(tmp_path: Path) -> None:
    named = settings_from({"COUNTERPOSE_TRUSTED_PROXIES": "10.1.0.0/16, 2001:db8::7"}).trusted_proxies
    async with fake_gateway(
        tmp_path, api_keys=["a-key-of-enough-characters"], refused_keys_per_minute=4
    ) as gateway:
        async with through_server(gateway, PROXY, trusted_proxies=named) as http:
            assert await guesses(http, "one that turns") == [401] * 8
            # What a caller writes itself stands before what the proxy adds.
            fixed = "198.51.100.200"
            told = [
                (
                    await http.get("/v1/datasets", headers={"x-forwarded-for": f"192.0.2.{n}, {fixed}"})
                ).status_code
                for n in range(6)
            ]
            assert told == [401] * 4 + [429] * 2
        async with through_server(gateway, OTHER, trusted_proxies=named) as http:
            assert await guesses(http, "one that turns") == [401] * 4 + [429] * 4


async def test_without_keys_nobody_is_counted(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, requests_per_minute=1, refused_keys_per_minute=1) as gateway:
        answers = [await gateway.http.get("/v1/datasets") for _ in range(5)]
        assert {each.status_code for each in answers} == {200}
        assert "ratelimit" not in answers[-1].headers


def test_every_operation_but_health_declares_the_refusal() -> None:
    paths = document()["paths"]
    silent = {
        path
        for path, operations in paths.items()
        for operation in operations.values()
        if "rate-limited" not in codes_of(operation)["4XX"]
    }
    assert silent == {"/healthz", "/readyz"}
