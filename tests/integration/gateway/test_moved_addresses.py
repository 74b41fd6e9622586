"""An address under its method's name, as it was before runs were one resource, names the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.kinds import KINDS
from fakes.gateway import fake_gateway
from fakes.problems import problem

RESTS = ("", "/summary", "/items/i1", "/events", "/findings/2", "/shift-thresholds/in%20the%20snow")
VERBS = ("cancel", "resume", "wait", "register", "generate")
OTHERS = (
    ("POST", "/v1/stress-tests/r1/findings/2:prove", "/v1/runs/r1/findings/2/prove"),
    ("POST", "/v1/stress-tests:estimate", "/v1/stress-tests/estimate"),
    ("POST", "/v1/bug-hunts:estimate", "/v1/bug-hunts/estimate"),
    ("POST", "/v1/gates:freeze", "/v1/gates/freeze"),
    ("POST", "/v1/jobs/j1:cancel", "/v1/jobs/j1/cancel"),
    ("POST", "/v1/datasets/demo/import:cancel", "/v1/datasets/demo/import/cancel"),
)


async def test_every_old_address_of_a_run_answers_404_with_the_new_one(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for kind in KINDS.values():
            for rest in RESTS:
                answer = await gateway.http.get(f"/v1/{kind.path}/r1{rest}")
                new = f"/v1/runs/r1{rest}".replace("%20", " ")
                assert problem(answer, 404, "not-found").detail.endswith(f"has moved; ask {new!r}")
            for verb in VERBS:
                answer = await gateway.http.post(f"/v1/{kind.path}/r1:{verb}")
                found = problem(answer, 404, "not-found")
                assert found.detail.endswith(f"has moved; ask '/v1/runs/r1/{verb}'")


@pytest.mark.parametrize(("method", "old", "new"), OTHERS)
async def test_other_verbs_have_moved_too(tmp_path: Path, method: str, old: str, new: str) -> None:
    async with fake_gateway(tmp_path) as gateway:
        found = problem(await gateway.http.request(method, old), 404, "not-found")
        assert found.detail.endswith(f"has moved; ask {new!r}")


async def test_a_list_of_one_kind_is_one_of_all_runs(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for kind in KINDS.values():
            answer = await gateway.http.get(f"/v1/{kind.path}")
            assert answer.status_code == 405
            assert answer.json()["detail"].endswith(f"answers POST only; ask '/v1/runs?kind={kind.name}'")
            assert (await gateway.http.get(f"/v1/runs?kind={kind.name}")).json()["runs"] == []


async def test_an_address_that_never_was_is_said_to_have_no_route(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for path in ("/v1/stresstests/r1", "/v1/runs/r1/nothing", "/v1/nothing", "/stress-tests/r1"):
            found = problem(await gateway.http.get(path), 404, "not-found")
            assert found.detail.endswith("check it against the API reference")
