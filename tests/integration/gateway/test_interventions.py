"""User-defined edits and the follow-up of a finding, from the SDK through the gateway to the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose import AsyncClient, AsyncStressTest
from fakes.gateway import FakeGateway, fake_gateway

CLASSIFIERS = ["steady", "leaning"]


async def finished(gateway: FakeGateway, run: AsyncStressTest) -> AsyncStressTest:
    """The run after a worker has done all planned items."""
    await gateway.worker().work_off()
    return await run.wait()


@pytest.mark.paper("LANCE-AB-apply-all")
async def test_a_finding_can_be_applied_to_the_whole_dataset(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        sources = (await gateway.upload("demo", 3))["added"]
        client = AsyncClient(http=gateway.http)
        first = await client.stress_tests.create(
            dataset="demo", classifiers=CLASSIFIERS, edit_types=["background"], max_edits_per_image=3,
            interventions=["red=>blue", "=>in the snow", "in the rain=>"], seed=3,
        )  # fmt: skip
        found = await (await finished(gateway, first)).summary()
        assert [one.not_applicable for one in found.interventions] == [0, 0, sources]
        assert found.counts["planned"] == sources * (2 + 3 + 1 + 3)
        # The run is too small to confirm anything: its findings are those that `prove` and the report number.
        told = (await first.finding(1)).told
        assert told.added == "in the snow"

        applied = await finished(gateway, await first.apply(1))
        summary = await applied.summary()
        assert applied.run.state == "completed"
        assert {item.kind async for item in applied.items()} == {"reconstruction", "placebo", "intervention"}
        assert (summary.seed, summary.counts["planned"]) == (4, 3 * sources)
        [one] = summary.interventions
        assert (one.removed, one.added) == (told.removed, "in the snow")
        changes = {name: figures["leaning"].estimate for name, figures in one.classes.items()}
        assert len(changes) > 1
        assert all(change is not None and change < -0.7 for change in changes.values())
        report = await applied.report()
        assert f"“{one.removed}” becomes “in the snow”" in report
        assert "No edit survived" not in report
