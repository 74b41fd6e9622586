"""A stress test through gateway, worker and services in this process, whose editor asks a server by HTTP."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.preservation import OF_EDITS
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_core.suite import EditorSuite, Suite, load_suite
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.services.ports import Services
from counterpose_miniature.world.scene import Scene
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.scorer.engine import ScorerEngine
from counterpose_services.settings import ServiceSettings
from evaluation.hunt_validity.engines import Kept
from evaluation.paths import SUITE_WEIGHTS
from evaluation.product_speed.bare_engines import Bare
from evaluation.served_editor.oracle import Answer, Oracle, mask_file
from evaluation.served_editor.plan import PATIENCE_S, Plan
from evaluation.validity.kept import kept
from evaluation.validity.roster import SUITE
from evaluation.validity.sources import by_image, uploads
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_server import ImagesServer, images_server

PORT = 8290
"""Of the first server; the store keeps answers by address, so a run that goes on needs the same one."""
DATASET = "scenes"
_UPLOADED = 32


@dataclass(frozen=True)
class Arm:
    """A run on one server: its plan, the port, and the request's fields that other arms have not.

    Of one with a ``region`` the sources have the masks of their objects, and the server takes them.
    """

    plan: Plan
    port: int
    fields: Mapping[str, Any]

    @property
    def is_masked(self) -> bool:
        """Whether masks bound the edits."""
        return "region" in self.fields


@dataclass(frozen=True)
class Done:
    """What a run came to, with what the server did by question."""

    items: list[Item]
    summary: StressTestSummary
    answers: dict[str, Answer]


_DONE = TypeAdapter(Done)


def arms(plans: Mapping[str, Plan]) -> dict[str, Arm]:
    """Return a run on each server: with the gate where it is faulty, without where there is no fault."""
    gate = {"preservation": "all", "refused_faults": list(OF_EDITS)}
    return {
        name: Arm(plan, PORT + number, gate if plan.shares else {"preservation": "none"})
        for number, (name, plan) in enumerate(plans.items())
    }


@dataclass(frozen=True)
class Request:
    """What is asked of every server: sources, classifiers, edits of a source, and the run's seed.

    ``models`` is the folder of `local:` classifiers, if there are any.
    """

    scenes: Sequence[Scene]
    classifiers: Sequence[str]
    edits: int
    seed: int
    models: Path | None = None


def finished(arm: Arm, asked: Request, state: Path) -> Done:
    """Return the run's result, made now or by an earlier call; a run that was ended goes on."""
    folder = state / arm.plan.name
    folder.mkdir(parents=True, exist_ok=True)
    return kept(folder / "done.json", _DONE, lambda: asyncio.run(_ran(arm, asked, folder)))


async def _ran(arm: Arm, asked: Request, folder: Path) -> Done:
    # Captions and features are the same on every server.
    store_url = str(folder.parent / "store")
    store, answers = BlobStore(store_url), Kept(folder / "answers.jsonl")
    oracle = Oracle(arm.plan, by_image(asked.scenes), lambda key, one: answers.add({key: asdict(one)}))
    with ExitStack() as stack:
        server = stack.enter_context(images_server(oracle, arm.port))
        suite = served_suite(server, mask=arm.is_masked)
        ports: dict[str, Any] = {**_engines(store_url, asked.models)}
        services = Services(**ports, editor=cast(Any, editor_of(suite, server, store, folder)))
        ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        async with fake_gateway(
            folder, ports=lambda world: services, suite=suite, ledger=ledger, store=store
        ) as gateway:
            await _upload(gateway, asked.scenes, masked=arm.is_masked)
            create = StressTestCreate(
                dataset=DATASET,
                classifiers=list(asked.classifiers),
                max_edits_per_image=asked.edits,
                # As the presets' figures on record: one stage over every image.
                confirm=False,
                seed=asked.seed,
                **arm.fields,
            )
            run_id = await worked_off(gateway, create.model_dump(mode="json"))
            summary = await gateway.http.get(f"/v1/runs/{run_id}/summary")
            items = list(ledger.items.of(run_id, Item))
    told = StressTestSummary.model_validate_json(summary.raise_for_status().content)
    made = TypeAdapter(dict[str, Answer]).validate_python(answers.known)
    return Done(items, told, made)


async def _upload(gateway: FakeGateway, scenes: Sequence[Scene], *, masked: bool) -> None:
    await gateway.http.post("/v1/datasets", json={"name": DATASET})
    for start in range(0, len(scenes), _UPLOADED):
        some = scenes[start : start + _UPLOADED]
        batch = [one.model_dump(mode="json") for one in uploads(some, start)]
        for scene, one in zip(some, batch, strict=True):
            one["mask_base64"] = base64.b64encode(mask_file(scene)).decode() if masked else None
        answer = await gateway.http.post(f"/v1/datasets/{DATASET}/sources", json={"sources": batch})
        answer.raise_for_status()


async def worked_off(gateway: FakeGateway, body: Mapping[str, Any]) -> str:
    """Create a run, or take up the one of an earlier call, and work it off; returns its id."""
    answer = await gateway.http.post(
        "/v1/stress-tests", json=body, headers={IDEMPOTENCY_HEADER: "served-editor"}
    )
    run_id = str(answer.raise_for_status().json()["id"])
    # Engines answer in the worker's own thread: a second group would only wait.
    await gateway.worker(concurrency=1).work_off()
    state = gateway.ledger.runs.get(run_id).state
    if not state.startswith("completed"):
        raise RuntimeError(f"the run ended {state}")
    return run_id


def served_suite(server: ImagesServer, *, mask: bool = False) -> Suite:
    """The miniature suite with an editor at the server's address, which takes a ``mask`` or none."""
    editor = EditorSuite.model_validate(
        {
            "model": "oracle",
            "server": server.url,
            "resolution": 64,
            "default_preset": "api",
            "redraw": "api",
            "presets": {"api": {"backend": "images-api", "seeded": True, "mask": mask}},
        }
    )
    # What its images measure at least was measured with an editor of its own.
    return load_suite(SUITE).model_copy(update={"editor_part": editor, "known_images": None})


@dataclass(frozen=True)
class _Recalling(Bare):
    """An engine whose answers are recalled: what comes before the editor is the same on every server."""

    answers: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        call = getattr(self.engine, verb)

        async def called(request: BaseModel) -> Any:
            key = cache_key(verb=verb, request=request)
            if key not in self.answers:
                self.answers[key] = call(request)
            return self.answers[key]

        return called


@cache
def _engines(store_url: str, models: Path | None) -> Mapping[str, Bare]:
    """Load the engines of the miniature suite, but for the editor, once for all servers."""
    suite, root, store = load_suite(SUITE), SUITE_WEIGHTS, BlobStore(store_url)
    options = ClassifierOptions(models_folder=models)
    return {
        "captioner": _Recalling(CaptionerEngine.load(suite.captioner, root, store)),
        "perturber": _Recalling(PerturberEngine.load(suite.perturber, root)),
        "scorer": Bare(ScorerEngine.load(suite.scorer, root, store)),
        "classifiers": Bare(ClassifiersEngine.load(suite.classifiers, root, store, options)),
    }


def editor_of(suite: Suite, server: ImagesServer, store: BlobStore, folder: Path) -> EditorDeployment:
    """Return the editor's deployment, whose engine asks the server."""
    # The deployment's own; its engine has the store already.
    settings = ServiceSettings.model_validate({"store_url": str(folder / "store"), "state_dir": folder})
    return EditorDeployment(settings, ImagesApi(server.client(seconds=PATIENCE_S), suite.editor, store))
