"""``python -m evaluation.flows``: the stays of six flows of the product, as `evaluation.walk` counts them.

The services are fakes, but for the editor. Of each flow the files that are entered most are told, too.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from counterpose_services.editor.engine import EditorEngine
from evaluation.walk import Walk
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import hunted_services
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline

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


async def submission(walk: Walk) -> None:
    """The request of a stress test, until the run is in the ledger."""
    async with with_run("stress-test", BODY) as (gateway, _):
        create = METHODS["stress-test"].create.model_validate(BODY)
        with walk.counting():
            await submit(METHODS["stress-test"], create, gateway.app.state.context, None)


async def work_item(walk: Walk) -> None:
    """The items of one image of a stress test, by its method."""
    process = METHODS["stress-test"].process

    async def counted(group: LeasedGroup, **others: Any) -> None:
        with walk.counting():
            await process(group, **others)

    async with with_run("stress-test", BODY) as (gateway, _):
        with changed("stress-test", process=counted):
            await (await gateway.worker(concurrency=1)._next_work())


async def worker(walk: Walk) -> None:
    """The same around the method: lease, renewal, record."""

    async def process(group: LeasedGroup, *, record: Recorder, **_: Any) -> None:
        await record.ended([(item, Filtered(reason="none")) for item in group.items])

    async with with_run("stress-test", BODY) as (gateway, _):
        idle = gateway.worker(concurrency=1)
        with changed("stress-test", process=process), walk.counting():
            await (await idle._next_work())


async def report(walk: Walk) -> None:
    """The id of an ended stress test, until its report is written."""
    async with with_run("stress-test", BODY) as (gateway, run_id):
        await gateway.worker().work_off()
        with walk.counting():
            await awaited_report(METHODS["stress-test"], run_id, None, gateway.app.state.context)


async def next_stage(walk: Walk) -> None:
    """What a bug hunt plans next: of all its stages, the one with the most stays."""
    plan_next = METHODS["bug-hunt"].next_stage
    assert plan_next is not None

    def counted(run: Run, results: StageResults) -> StagePlan | None:
        with walk.counting():
            return plan_next(run, results)

    with changed("bug-hunt", next_stage=counted):
        async with with_run("bug-hunt", HUNT, ports=hunted_services) as (gateway, _):
            await gateway.worker().work_off()


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


FLOWS: tuple[Callable[[Walk], Awaitable[None]], ...] = (
    submission, work_item, worker, edit, report, next_stage,
)  # fmt: skip


def main() -> None:
    """Print stays and files of each flow, and the files that are entered most."""
    for flow in FLOWS:
        walk = Walk()
        asyncio.run(flow(walk))
        most = ", ".join(f"{Path(name).stem} {number}" for name, number in walk.into.most_common(8))
        sys.stdout.write(f"{flow.__name__:12} {walk.stays:4} stays {walk.files:4} files: {most}\n")


if __name__ == "__main__":
    main()
