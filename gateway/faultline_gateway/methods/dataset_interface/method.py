"""The dataset interface as a method of the gateway. Tokens are not a dataset, so it has no export."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from faultline_core.contract.dataset_interfaces import (
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    TokenItem,
)
from faultline_core.contract.runs import Run
from faultline_core.types import RunKind
from faultline_gateway.methods.dataset_interface.plan import plan
from faultline_gateway.methods.dataset_interface.process import process
from faultline_gateway.methods.dataset_interface.report import render
from faultline_gateway.methods.dataset_interface.summary import summarize
from faultline_gateway.runs.context import RunContext
from faultline_gateway.runs.items import LeasedGroup, Plan, Recorder
from faultline_gateway.runs.stores import Store
from faultline_gateway.services.ports import Services


class DatasetInterface:
    """The method of dataset interfaces; `faultline_gateway.runs.method.Method` says what each does."""

    kind: RunKind = "dataset-interface"
    item = TokenItem

    async def plan(self, create: DatasetInterfaceCreate, context: RunContext) -> Plan:
        """Plan one item per class."""
        return await plan(create, context)

    async def process(
        self, group: LeasedGroup, *, services: Services, record: Recorder, store: Store
    ) -> None:
        """Learn the tokens of several classes together."""
        await process(group, services=services, record=record, store=store)

    def revision(self, run_id: str, context: RunContext) -> None:
        """Return nothing: the figures depend only on the run's events."""

    def summarize(
        self, run: Run, items: Iterable[TokenItem], view: None, context: RunContext
    ) -> DatasetInterfaceSummary:
        """Sum up which classes have a token, how good it is, and why the others have no token."""
        return summarize(run, items)

    def report(
        self,
        summary: DatasetInterfaceSummary,
        run: Run,
        items: Iterable[TokenItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with real and generated images of each class."""
        return render(summary, run, list(items), read_image)


DATASET_INTERFACE = DatasetInterface()
