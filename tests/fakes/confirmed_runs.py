"""A stress test over the fakes with all its stages: what the ledger and its workers would do, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_gateway.methods.stress_test.confirm.stages import next_stage
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.findings import find
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.services.ports import Services
from fakes.ports import fake_services
from fakes.recorder import FakeRecorder, lease_all, recorded_items, recorded_run
from fakes.runs import planned
from fakes.world import FakeWorld

PER_CLASS = 20


@dataclass
class StagedRun:
    """A run of several stages; ``record`` holds the outcomes of all."""

    world: FakeWorld
    config: StressTestConfig
    services: Services
    record: FakeRecorder = field(default_factory=FakeRecorder)
    stages: list[list[PlannedItem]] = field(default_factory=list)

    @property
    def items(self) -> list[Item]:
        """All items as the ledger would list them."""
        return [
            item
            for number, stage in enumerate(self.stages, start=1)
            for item in recorded_items(stage, self.record, stage=number)
        ]

    @property
    def run(self) -> Run:
        """The run after its last opened stage."""
        return recorded_run(self.config, self.items).model_copy(update={"stage": len(self.stages)})

    def plan_next(self) -> list[PlannedItem] | None:
        """Plan the next stage; None where none follows."""
        plan = next_stage(self.run, self.items)
        if plan is None:
            return None
        first = sum(map(len, self.stages))
        stage = [replace(item, ordinal=first + item.ordinal) for item in plan.items]
        self.stages.append(stage)
        return stage

    async def work(self, stage: list[PlannedItem]) -> None:
        """Process a stage's items."""
        for group in lease_all(self.config, stage):
            await process(group, services=self.services, record=self.record, store=self.world.store)

    async def work_off(self) -> None:
        """Process what is planned, and every stage that follows."""
        await self.work(self.stages[-1])
        while (stage := self.plan_next()) is not None:
            await self.work(stage)

    def findings(self, **changes: object) -> list[Finding]:
        """The run's findings, without the rest of its summary."""
        estimator = LanceEstimator(self.config.request.seed)
        return find(self.run.model_copy(update=changes), self.items, self.config, estimator)[0]

    def summary(self, **changes: object) -> StressTestSummary:
        """The run's summary."""
        return summarize(self.run.model_copy(update=changes), self.items)

    def of_kind(self, kind: str, *, later: bool) -> list[Item]:
        """The items of a kind in the first stage, or in later ones."""
        return [item for item in self.items if item.kind == kind and (item.stage > 1) == later]


Ports = Callable[[FakeWorld], Services]
Sources = Callable[[FakeWorld], list[Source]]


async def staged_run(
    ports: Ports = fake_services,
    *,
    per_class: int = PER_CLASS,
    sources: Sources | None = None,
    redraw: str | None = None,
    **changes: object,
) -> StagedRun:
    """Plan a run that screens and confirms; by default it edits backgrounds alone and draws nothing again."""
    world = FakeWorld()
    services = ports(world)
    known: dict[str, object] = {
        "edit_types": ["background"], "max_edits_per_image": 3, "confirm_share": 0.5
    }  # fmt: skip
    chosen = world.sources(per_class) if sources is None else sources(world)
    config, items = await planned(chosen, services, redraw=redraw, **{**known, **changes})
    return StagedRun(world, config, services, stages=[items])


async def finished_run(
    ports: Ports = fake_services,
    *,
    per_class: int = PER_CLASS,
    sources: Sources | None = None,
    redraw: str | None = None,
    **changes: object,
) -> StagedRun:
    """The same, worked off."""
    run = await staged_run(ports, per_class=per_class, sources=sources, redraw=redraw, **changes)
    await run.work_off()
    return run


async def run_after_screen(ports: Ports = fake_services, **changes: object) -> StagedRun:
    """The same, with its first stage worked off."""
    run = await staged_run(ports, **changes)  # type: ignore[arg-type]  # of the request
    await run.work(run.stages[0])
    return run
