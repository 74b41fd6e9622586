"""``python -m evaluation.flows``: the stays of six flows of the product, as `evaluation.walk` counts them.

The services are fakes, but for the editor. Of each flow the files that are entered most are told, too.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.runs import Run
from counterpose_core.images.codecs import encode_png
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.records.outcomes import Filtered
from counterpose_gateway.runs.stages import StagePlan, StageResults
from counterpose_gateway.runs.submission import submit
from counterpose_gateway.summaries.summaries import awaited_report
from counterpose_gateway.worker.worker import Worker
from counterpose_services.editor.engine import EditorEngine
from evaluation.in_process import context_of, work_off
from evaluation.walk import Walk
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import hunted_services
from fakes.recorder import FakeRecorder
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline
from fakes.world import FakeWorld, fake_suite

HUNT = {
    "classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 250}, "held_out": 32,
    "hypotheses": 4, "seed": 2,
}  # fmt: skip
BODY = {"dataset": "demo", "classifiers": ["steady", "leaning"], "seed": 3}


@asynccontextmanager
async def with_run(kind: str, body: dict[str, Any], **options: Any) -> AsyncIterator[tuple[FakeGateway, str]]:
    """A gateway with a new run."""
    with tempfile.TemporaryDirectory() as folder:
        async with fake_gateway(Path(folder), **options) as gateway:
            await gateway.upload("demo", 2)
            create = METHODS[kind].create.model_validate(body)
            run = await submit(METHODS[kind], create, gateway.app.state.context, None)
            yield gateway, run.id


@contextmanager
def changed(kind: str, **fields: Any) -> Iterator[None]:
    """Give a method other functions during the block."""
    method = METHODS[kind]
    METHODS[kind] = replace(method, **fields)
    try:
        yield
    finally:
        METHODS[kind] = method


async def one_group(worker: Worker) -> None:
    """Let a worker lease a group of items and work on it."""
    work = await worker._next_work()
    assert work is not None
    await work


async def submission(walk: Walk) -> None:
    """The request of a stress test, until the run is in the ledger."""
    async with with_run("stress-test", BODY) as (gateway, _):
        create = METHODS["stress-test"].create.model_validate(BODY)
        with walk.counting():
            await submit(METHODS["stress-test"], create, gateway.app.state.context, None)


async def work_item(walk: Walk) -> None:
    """The items of one image of a stress test, by its method."""
    process = METHODS["stress-test"].process

    async def counted(group: LeasedGroup, *, record: Recorder, **others: Any) -> None:
        # The worker's recorder is the way of another flow.
        with walk.counting():
            await process(group, record=FakeRecorder(), **others)

    async with with_run("stress-test", BODY) as (gateway, _):
        with changed("stress-test", process=counted):
            await one_group(gateway.worker())


async def worker(walk: Walk) -> None:
    """The same around the method: lease, renewal, record."""

    async def process(group: LeasedGroup, *, record: Recorder, **_: Any) -> None:
        await record.ended([(item, Filtered(reason="none")) for item in group.items])

    async with with_run("stress-test", BODY) as (gateway, _):
        idle = gateway.worker()
        with changed("stress-test", process=process), walk.counting():
            await one_group(idle)


async def report(walk: Walk) -> None:
    """The id of an ended stress test, until its report is written."""
    async with with_run("stress-test", BODY) as (gateway, run_id):
        await gateway.worker().work_off()
        with walk.counting():
            await awaited_report(METHODS["stress-test"], run_id, None, gateway.app.state.context)


async def next_stage(walk: Walk) -> None:
    """What a bug hunt plans next, without a ledger: of all its stages, the one with the most stays."""
    hunt = METHODS["bug-hunt"]
    plan_next = hunt.next_stage
    assert plan_next is not None

    def counted(run: Run, results: StageResults) -> StagePlan | None:
        with walk.counting():
            return plan_next(run, results)

    world = FakeWorld()
    context = context_of(hunted_services(world), cast(Any, world.store), fake_suite())
    counting = replace(hunt, next_stage=counted)
    # It has an event loop of its own.
    await asyncio.to_thread(work_off, counting, hunt.create.model_validate(HUNT), context)


async def edit(walk: Walk) -> None:
    """A request of the editor, with the tiny pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_pipeline(Path(folder) / "tiny")
        store = BlobStore(f"{folder}/store")
        engine = EditorEngine.load(SUITE, Path(folder), store)
        pixels = np.random.default_rng(1).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
        item = EditItem(image=store.put(encode_png(pixels)), caption="a red bus", edited_caption="a blue bus")
        with walk.counting():
            engine.edit(EditRequest(items=[item], preset=PromptToPromptPreset(steps=4, inner_steps=2)))


FLOWS: tuple[Callable[[Walk], Coroutine[Any, Any, None]], ...] = (
    submission, work_item, worker, edit, report, next_stage,
)  # fmt: skip


def main() -> None:
    """Print stays and files of each flow, and the files that are entered most."""
    for flow in FLOWS:
        walk = Walk()
        asyncio.run(flow(walk))
        by_file = Counter({Path(name).stem: len(callers) for name, callers in walk.callers.items()})
        most = ", ".join(f"{name} {number}" for name, number in by_file.most_common(8))
        sys.stdout.write(f"{flow.__name__:12} {walk.stays:4} stays {len(walk.callers):4} files: {most}\n")


if __name__ == "__main__":
    main()
