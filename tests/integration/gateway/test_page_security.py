"""Who may open the pages and who may change something: keys, sessions, origins, forms, headers."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from counterpose_gateway.http.sessions import LIFETIME_SECONDS, Sessions
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.problems import problem

KEY = "a-key-of-enough-characters"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
OWN = {"origin": URL, "sec-fetch-site": "same-origin"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


async def run_of(gateway: FakeGateway) -> str:
    """The id of a run that waits."""
    await gateway.upload("demo", 1)
    return str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])


async def signed_in(gateway: FakeGateway) -> None:
    """Give the client a session."""
    sent = {"key": KEY, "next": "/ui"}
    answer = await gateway.http.post("/ui/login", data=sent, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui")
    assert answer.headers["set-cookie"].startswith("counterpose_session_8080=")


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://127.0.0.1:8080.evil.example"},
    {"origin": "http://user@127.0.0.1:8080"},
    {"origin": URL, "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda headers: " ".join(headers.values()))
async def test_a_page_of_another_origin_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run_id = await run_of(gateway)
        one = f"/v1/runs/{run_id}"
        asked = [
            ("POST", f"{one}/cancel"), ("POST", f"{one}/resume"), ("POST", "/v1/stress-tests"),
            ("DELETE", one), ("PATCH", one), ("POST", f"/ui/runs/{run_id}/cancel"),
            ("POST", f"/ui/runs/{run_id}/delete"),
        ]  # fmt: skip
        for method, path in asked:
            answer = await gateway.http.request(method, path, headers=headers)
            problem(answer, 403, "foreign-origin")
        assert gateway.ledger.runs.get(run_id).state == "queued"
        assert (await gateway.http.get(one, headers=headers)).status_code == 200


@pytest.mark.parametrize("headers", [{}, OWN, {"origin": "https://127.0.0.1:8080"}], ids=str)
async def test_programs_and_own_pages_change_things(tmp_path: Path, headers: dict[str, str]) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run_id = await run_of(gateway)
        answer = await gateway.http.post(f"/v1/runs/{run_id}/cancel", headers=headers)
        assert answer.json()["state"] == "cancelled"


async def test_without_keys_a_foreign_host_finds_no_page(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for path in ("/", "/ui", "/ui/login", "/ui/static/htmx.min.js"):
            answer = await gateway.http.get(path, headers={"host": "evil.example"})
            problem(answer, 422, "invalid-request")


async def test_without_a_session_every_page_leads_to_the_login(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        for path in ("/ui", "/ui/runs/x", "/ui/images/" + 64 * "0" + ".webp", "/ui/nothing"):
            answer = await gateway.http.get(path)
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/ui/login?next={path.replace('/', '%2F')}"
        polled = await gateway.http.get("/ui/runs/x/live", headers={"hx-request": "true"})
        assert (polled.status_code, polled.headers["hx-redirect"]) == (401, "/ui/login")
        problem(await gateway.http.post("/ui/runs/x/cancel", headers=OWN), 401, "unauthorized")


async def test_a_session_opens_the_pages_and_nothing_else(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        await signed_in(gateway)
        assert (await gateway.http.get("/ui")).status_code == 200
        problem(await gateway.http.get("/v1/runs"), 401, "unauthorized")
        problem(await gateway.http.get("/metrics"), 401, "unauthorized")


async def test_a_session_changes_things_only_for_our_own_origin(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        gateway.http.headers["authorization"] = f"Bearer {KEY}"
        run_id = await run_of(gateway)
        del gateway.http.headers["authorization"]
        await signed_in(gateway)
        path = f"/ui/runs/{run_id}/cancel"
        problem(await gateway.http.post(path), 403, "foreign-origin")
        problem(
            await gateway.http.post(path, headers={"origin": "https://evil.example"}), 403, "foreign-origin"
        )
        assert (await gateway.http.post(path, headers=OWN)).status_code == 303
        assert gateway.ledger.runs.get(run_id).state == "cancelled"


async def test_a_wrong_key_opens_nothing(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        for key in ("", KEY[:-1], KEY + "x", "schlüssel-mit-umlaut-ü"):
            answer = await gateway.http.post("/ui/login", data={"key": key}, headers=OWN)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
        problem(
            await gateway.http.post(
                "/ui/login", data={"key": KEY}, headers={"origin": "https://evil.example"}
            ),
            403,
            "foreign-origin",
        )


async def test_the_cookie_is_hidden_strict_and_not_the_key(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        plain = await gateway.http.post("/ui/login", data={"key": KEY}, headers=OWN)
        secure = await gateway.http.post(
            "/ui/login", data={"key": KEY}, headers={"origin": URL.replace("http:", "https:")}
        )
        cookie = plain.headers["set-cookie"]
        assert KEY not in cookie
        wanted = ("HttpOnly", "SameSite=strict", "Path=/ui", f"Max-Age={LIFETIME_SECONDS}")
        assert [part for part in wanted if part not in cookie] == []
        assert ("Secure" in cookie, "Secure" in secure.headers["set-cookie"]) == (False, True)
        await signed_in(gateway)
        out = await gateway.http.post("/ui/logout", headers=OWN)
        assert "Max-Age=0" in out.headers["set-cookie"]


@pytest.mark.parametrize(
    "goal",
    ["https://evil.example", "//evil.example", "/ui\\@evil.example", "/v1/runs", "/uix", "/ui/../x//y",
     "/ui/../../v1/runs", "/ui/./..", "/ui/.."],
)  # fmt: skip
async def test_the_login_leads_to_no_other_site(tmp_path: Path, goal: str) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        sent = {"key": KEY, "next": goal}
        assert (await gateway.http.post("/ui/login", data=sent, headers=OWN)).headers["location"] == "/ui"
        assert "evil" not in (await gateway.http.get("/ui/login", params={"next": goal})).text


def test_a_session_ends_and_cannot_be_forged() -> None:
    now = [1000.0]
    sessions = Sessions([KEY.encode()], lambda: now[0])
    session = sessions.open(KEY)
    assert session is not None
    assert sessions.is_valid(session)
    end, number, signature = session.split(".")
    longer = f"{int(end) + 1}.{number}.{signature}"
    assert [sessions.is_valid(each) for each in (longer, session[:-1], "", "..", "x.y.z", "ü.1.2")] == [
        False
    ] * 6
    assert not Sessions([b"another-key-of-some-length"]).is_valid(session)
    now[0] += LIFETIME_SECONDS + 1
    assert not sessions.is_valid(session)


async def test_forms_are_read_by_pages_alone(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run_id = await run_of(gateway)
        problem(
            await gateway.http.post("/v1/stress-tests", content="a=b", headers=FORM), 415, "unsupported-media"
        )
        path = f"/ui/runs/{run_id}/rename"
        renamed = await gateway.http.post(path, content="name=n%C3%A4chtlich", headers=FORM)
        assert renamed.status_code == 303
        assert gateway.ledger.runs.get(run_id).name == "nächtlich"
        for content, status in (
            (b"name=%FF", 422),
            (b"&".join([b"a=b"] * 21), 422),
            (b"name=" + 121 * b"a", 422),
        ):
            assert (await gateway.http.post(path, content=content, headers=FORM)).status_code == status
        problem(
            await gateway.http.post(path, content=b"name=" + 10_000 * b"a", headers=FORM),
            413,
            "payload-too-large",
        )
        assert gateway.ledger.runs.get(run_id).name == "nächtlich"


async def test_every_page_may_do_no_more_than_it_must(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run_id = await run_of(gateway)
        paths = ["/ui", "/ui/nothing", f"/ui/runs/{run_id}", f"/ui/runs/{run_id}/items", "/ui/runs/none"]
        await gateway.worker().work_off()
        paths += [f"/ui/runs/{run_id}", f"/ui/runs/{run_id}/report", f"/ui/runs/{run_id}/delete"]
        for path in paths:
            answer = await gateway.http.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe-eval" not in policy
            script = re.search(r"script-src ([^;]*)", policy)
            assert script is not None
            assert "unsafe-inline" not in script[1]
            assert answer.headers["x-content-type-options"] == "nosniff"
            # A report has no forms, and its address may be a signed link.
            own = "no-referrer" if path.endswith("/report") else "same-origin"
            assert answer.headers["referrer-policy"] == own
            assert answer.headers["cache-control"] == "no-store"
            if not path.endswith("/report"):
                assert re.findall(r"<script(?! defer src=)|\son\w+=|javascript:", answer.text) == []


async def test_the_first_page_is_open_to_every_method_of_looking(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY]) as gateway:
        answer: httpx.Response = await gateway.http.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui")
        assert (await gateway.http.get("/ui/login")).status_code == 200
        assert (await gateway.http.get("/ui/static/pages.css")).status_code == 200
