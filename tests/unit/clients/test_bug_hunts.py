"""Bug hunts from Python: what a measurement of one's own description asks of the gateway."""

from __future__ import annotations

import json

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from fakes.sdk import Session, a_run, ok

PARENT = "3fa8" + "0" * 28
CHILD = "77aa" + "0" * 28


def test_a_measurement_is_a_run_of_its_own(kind: str) -> None:
    child = a_run("queued", 0, CHILD, "bug-hunt").model_copy(update={"parent": PARENT})
    parent = a_run("completed", 3, PARENT, "bug-hunt")
    session = Session(kind, ok(parent.model_dump_json()), ok(child.model_dump_json()))
    hunt = session(lambda client: client.bug_hunts.get(PARENT))
    measured = session(lambda _: hunt.measure("a fly at night", "a fly in a net", images=32, seed=4))
    assert (type(measured), measured.id, measured.run.parent) == (type(hunt), CHILD, PARENT)
    sent = session.seen[-1]
    assert (sent.method, sent.url.path) == ("POST", f"/v1/runs/{PARENT}/descriptions")
    assert json.loads(sent.content) == {
        "descriptions": ["a fly at night", "a fly in a net"],
        "images": 32,
        "seed": 4,
    }
    assert sent.headers[IDEMPOTENCY_HEADER]
