"""Functions of a caller's program that has ended: the run stops, and goes on when they are served again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose import AsyncClient, Classifier
from counterpose_core.errors import BackendUnavailable, FunctionGone, InvalidRequest
from counterpose_services.classifiers.open_inference import OpenInference
from fakes.engine_classifiers import gateway_with_engine, red
from fakes.gateway import FakeGateway
from fakes.ledger_audit import violated
from fakes.world import CLASSES


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway whose services call functions."""
    async with gateway_with_engine(tmp_path) as opened:
        yield opened


async def test_a_run_whose_function_is_gone_stops_and_goes_on_when_it_is_served_again(
    gateway: FakeGateway,
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="mine")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own, "steady"], edit_types=["background"], max_edits_per_image=1
    )
    client._functions.close()
    await gateway.worker().work_off()
    with pytest.raises(FunctionGone, match=r"no function answers for 'mine'.*serve the function again"):
        await run.wait()
    stopped = run.run
    assert stopped.problem is not None
    assert (stopped.state, stopped.problem.code) == ("failed", "function-gone")
    counts = stopped.request_counts
    assert (counts.failed, counts.cancelled) == (0, counts.total)
    assert violated(gateway.ledger, run.id) == []

    # Another program, after the first one has ended.
    later = AsyncClient(http=gateway.http)
    again = await later.stress_tests.get(run.id)
    other = Classifier(red, classes=CLASSES, input_size=(16, 16), name="yours")
    with pytest.raises(InvalidRequest, match="has no function 'yours'; its functions: 'mine'"):
        await again.resume(classifiers=[other])
    await again.resume(classifiers=[own])
    await gateway.worker().work_off()
    assert (await again.wait()).state == "completed"
    summary = await again.summary()
    assert summary.models["mine"].original.hit_rates[0].n == len(CLASSES)
    assert "/v2/models" not in repr(again.run)
    later._functions.close()


async def test_a_single_broken_connection_to_a_function_stops_nothing(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient(http=gateway.http)
    own = Classifier(red, classes=CLASSES, input_size=(16, 16), name="mine")
    run = await client.stress_tests.create(
        dataset="demo", classifiers=[own], edit_types=["background"], max_edits_per_image=1
    )
    broken, infer = [True], OpenInference.infer

    def once_broken(self: OpenInference, images: list[Any]) -> Any:
        if broken:
            broken.clear()
            raise BackendUnavailable("the connection broke")
        return infer(self, images)

    monkeypatch.setattr(OpenInference, "infer", once_broken)
    # The items rest for two seconds or so before they are tried again.
    async with asyncio.timeout(60.0):
        while not (await run.refresh()).ended:
            await gateway.worker().work_off()
            await asyncio.sleep(0.1)
    assert run.state == "completed"
    assert broken == []
    client._functions.close()
