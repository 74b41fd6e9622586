"""Bug hunts, adversarial datasets and transfers with workers killed in every stage: the same findings."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.adversarial_datasets import AdversarialItem
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.transfers import TransferItem
from fakes.gateway import FakeGateway
from fakes.killed_runs import Killed, Recorded, killed, undisturbed
from fakes.processes import Start, child_processes
from fakes.store import image
from fakes.world import Shown

HUNT: dict[str, Any] = {
    "classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 160}, "held_out": 16, "winners": 1,
    "hypotheses": 3, "captions": 8, "refine": 8, "words": "both", "clusters": "features", "vary": 0.0,
    "seed": 5,
}  # fmt: skip
PLACES = ("in the snow", "on the grass")
DATASET: dict[str, Any] = {
    "classifiers": ["leaning"], "seeds": {"kind": "dataset", "dataset": "wild", "mistaken": False},
    "samples": 24, "most_kept": 8, "images": 80, "baseline": 8, "reference": "wild",
    "reference_images": 20, "seed": 5,
}  # fmt: skip
FOOLING: dict[str, Any] = {
    "classifiers": ["leaning"], "samples": 64, "most_kept": 48, "images": 128, "baseline": 48, "seed": 1,
    "seeds": {
        "kind": "captions", "captions": [{"label": "plate", "text": "a photo of a plate in the snow"}],
    },
}  # fmt: skip


async def posted(gateway: FakeGateway, root: str, body: dict[str, Any]) -> str:
    answer = await gateway.http.post(root, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def hunt(gateway: FakeGateway) -> str:
    return await posted(gateway, "/v1/bug-hunts", HUNT)


async def adversarial_dataset(gateway: FakeGateway) -> str:
    """Of photographs of plates in two places."""
    shown = [Shown("plate", f"a photo of a plate {PLACES[number % 2]}") for number in range(20)]
    sources = []
    for number, each in enumerate(shown):
        gateway.world.add(each, number)
        content = base64.b64encode(image(each, number)).decode()
        sources.append({"filename": f"{number}.png", "label": "plate", "content_base64": content})
    await gateway.http.post("/v1/datasets", json={"name": "wild"})
    answer = await gateway.http.post("/v1/datasets/wild/sources", json={"sources": sources})
    assert answer.json()["added"] == len(shown), answer.text
    return await posted(gateway, "/v1/adversarial-datasets", DATASET)


async def transfer(gateway: FakeGateway) -> str:
    """Of the images of an adversarial dataset that has ended."""
    source = await posted(gateway, "/v1/adversarial-datasets", FOOLING)
    await gateway.worker().work_off()
    body = {"source": source, "classifiers": ["leaning", "steady"], "seed": 1}
    return await posted(gateway, "/v1/transfers", body)


KINDS = [
    (
        Killed("/v1/bug-hunts", HuntItem, hunt),
        ["baseline", "clusters", "captions", "combination", "hypothesis", "refinement", "held-out"],
    ),
    (
        Killed("/v1/adversarial-datasets", AdversarialItem, adversarial_dataset),
        ["seed", "baseline", "reference", "sample"],
    ),
    # It has one stage.
    (Killed("/v1/transfers", TransferItem, transfer, kills=3), ["fooling", "baseline"]),
]


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture(scope="module")
def undisturbed_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Each run of one worker that nobody kills."""
    return {kind.root: undisturbed(tmp_path_factory.mktemp("undisturbed"), kind) for kind, _ in KINDS}


@pytest.mark.parametrize(("kind", "phases"), KINDS, ids=[kind.root for kind, _ in KINDS])
def test_workers_killed_in_every_stage_find_what_an_undisturbed_one_finds(
    url: str,
    tmp_path: Path,
    start: Start,
    undisturbed_runs: dict[str, Recorded],
    kind: Killed,
    phases: list[str],
) -> None:
    alone = undisturbed_runs[kind.root]
    assert alone.phases == phases
    found = killed(url, tmp_path, kind, start, alone.lines)
    assert found.items == alone.items
    assert found.findings == alone.findings
