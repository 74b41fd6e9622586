"""Which workflow works on a leased group: that of its run's kind."""

from __future__ import annotations

from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedGroup, Recorder
from faultline_gateway.workflows import dataset_interface, shift_benchmark, stress_test
from faultline_gateway.workflows.found_pictures import IndexStore


async def work_on(group: LeasedGroup, *, services: Services, record: Recorder, store: IndexStore) -> None:
    """Give each leased item exactly one outcome, by the workflow of the run's kind.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    match group.config:
        case StressTestConfig():
            await stress_test.process(group, services=services, record=record, store=store)
        case DatasetInterfaceConfig() as config:
            await dataset_interface.process_classes(
                group, config, services=services, record=record, store=store
            )
        case ShiftBenchmarkConfig() as config:
            await shift_benchmark.process_pictures(
                group, config, services=services, record=record, store=store
            )
        case _:
            raise TypeError(f"no workflow knows the configuration of run {group.run_id}")
