"""What a dataset interface has come to: its tokens, and why others are missing."""

from __future__ import annotations

from collections.abc import Iterable

from faultline_core.contract.dataset_interfaces import (
    DatasetInterfaceConfig,
    DatasetInterfaceSummary,
    TokenItem,
)
from faultline_core.contract.runs import Run
from faultline_core.types import Cost


def summarize_interface(run: Run, items: Iterable[TokenItem]) -> DatasetInterfaceSummary:
    """Sum up the run as it stands: finished classes are usable whatever became of the others."""
    listed = list(items)
    config = DatasetInterfaceConfig.model_validate(run.resolved_config)
    missing = dict.fromkeys(config.without_pictures, "the dataset has no picture of it")
    missing |= {item.label: _why(item) for item in listed if item.state != "done"}
    results = {item.label: item.result for item in listed if item.result is not None and item.state == "done"}
    return DatasetInterfaceSummary(
        run_id=run.id,
        dataset=run.dataset,
        tokens=results,
        missing=missing,
        counts=run.request_counts,
        cost=sum((result.cost for result in results.values()), Cost()),
        config=config,
    )


def _why(item: TokenItem) -> str:
    if item.state == "failed":
        return f"{item.code}: {item.detail}"
    return "its learning was cancelled" if item.state == "cancelled" else "it is not learned yet"
