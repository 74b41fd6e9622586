"""Stress tests that the tests of the pages look at, and a worker that goes as far as they say."""

from __future__ import annotations

from fakes.gateway import FakeGateway

BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip


async def created(gateway: FakeGateway, **changes: object) -> str:
    """The id of a new stress test."""
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def work(gateway: FakeGateway, groups: int) -> None:
    """Process so many item groups."""
    worker = gateway.worker(concurrency=1)
    for _ in range(groups):
        group = await worker._next_work()
        assert group is not None
        await group
