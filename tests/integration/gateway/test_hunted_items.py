"""Stages and summaries of hunts read documents, and find in them what models of the items say."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.runs import CommonestFailure, Run
from counterpose_core.errors import ImageUndecodable
from counterpose_gateway.methods.bug_hunt.hunted_items import read_items
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from counterpose_gateway.runs.stages import StagePlan
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntClassifiers, HuntEditor, hunted_services
from fakes.ports import refusing
from fakes.world import FakeWorld, Shown

BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate", "sled"], "seed": 5, "winners": 1,
    "budget": {"images": 900}, "held_out": 32, "hypotheses": 3, "captions": 16,
}  # fmt: skip
SEARCH = BODY | {"refine": 16, "vary": 0.4, "clusters": "features", "words": "both", "mentions": 16}
OWN = BODY | {
    "labels": ["plate"], "descriptions": ["a photo of a plate in the snow"],
    "photographs": {"described": "snow", "alone": "sand"},
}  # fmt: skip
SHARED = BODY | {
    "vary": 0.0, "budget": {"images": 1_000, "minutes": 100},
    "mixture": {"images": 80, "components": [{"prompt": "a photo of a <class> in the fog", "share": 0.1}]},
}  # fmt: skip
PHASES = {
    "search": {
        "baseline", "varied", "clusters", "captions", "combination", "hypothesis", "refinement", "held-out",
        "mentions",
    },
    "own": {"held-out", "photographs"},
    "shared": {"baseline", "captions", "hypothesis", "held-out", "pilot", "mixture"},
}  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Unreading(HuntClassifiers):
    """``leaning`` cannot read every fourth image, and both no image of every sixteenth."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answer the others."""
        answer, least = await super().classify(request), 4 if request.classifier == "leaning" else 1
        refused = [int(ref[-1], 16) < least for ref in request.images]
        return refusing(answer, refused, ImageUndecodable("cannot be read"))


def unreading_services(world: FakeWorld) -> Services:
    services = hunted_services(world)
    return replace(services, editor=HuntEditor(world, snow="deep snow"), classifiers=Unreading(world))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("hunts"), ports=unreading_services) as opened:
        for place in ("snow", "sand"):
            await _upload(opened, place)
        yield opened


async def _upload(gateway: FakeGateway, place: str) -> None:
    made = await gateway.http.post("/v1/datasets", json={"name": place, "classes": ["plate", "sled"]})
    made.raise_for_status()
    refs = [gateway.world.add(Shown("plate", f"a plate in the {place}"), place, n) for n in range(12)]
    sources = [
        {
            "filename": f"{number}.png",
            "label": "plate",
            "content_base64": base64.b64encode(gateway.world.store.get(ref)).decode(),
        }
        for number, ref in enumerate(refs)
    ]
    (await gateway.http.post(f"/v1/datasets/{place}/sources", json={"sources": sources})).raise_for_status()


@pytest.mark.parametrize(("name", "body"), [("search", SEARCH), ("own", OWN), ("shared", SHARED)])
async def test_documents_and_models_give_equal_summaries_and_stages(
    gateway: FakeGateway, name: str, body: dict[str, Any]
) -> None:
    answer = await gateway.http.post("/v1/bug-hunts", json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    run = gateway.ledger.runs.get(answer.json()["id"], "bug-hunt")
    items = list(gateway.ledger.items.of(run.id, HuntItem))
    assert {item.instruction.phase for item in items if item.instruction is not None} == PHASES[name]
    assert {item.state for item in items} == {"done", "failed"}
    for stage in range(1, run.stage + 1):
        _compare(gateway, run.model_copy(update={"stage": stage}), items)
    served = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
    # What failed is read from the ledger, beside the items, and stands at the verdict's end.
    assert served["failure"]["code"] == "image-undecodable"
    told = str(CommonestFailure.model_validate(served["failure"]))
    assert served["verdict"].splitlines()[-1] == told
    without = {"failure": None, "verdict": served["verdict"].removesuffix(f"\n{told}")}
    assert served | without == summarize(run, items).model_dump(mode="json")
    assert served["seconds"] > 0.0


def _compare(gateway: FakeGateway, run: Run, items: list[HuntItem]) -> None:
    """What is recorded up to the run's stage, read both ways."""
    known = [item for item in items if item.stage <= run.stage]
    recorded = list(gateway.ledger.items.recorded(run.id, number=len(known)))
    assert summarize(run, read_items(recorded)) == summarize(run, known)
    assert _planned(next_stage(run, read_items(recorded))) == _planned(next_stage(run, known))


def _planned(plan: StagePlan | None) -> list[Any]:
    return [] if plan is None else list(plan.items)
