"""The summary of a dataset interface: its tokens, and the reasons for missing ones."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceConfig,
    DatasetInterfaceSummary,
    TokenItem,
    TokenResult,
)
from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.runs import Run
from counterpose_core.types import Cost
from counterpose_gateway.runs.recorded import recorded_config


def summarize(run: Run, items: Iterable[TokenItem]) -> DatasetInterfaceSummary:
    """Sum up the run so far: finished classes are usable even if others failed."""
    config = recorded_config(DatasetInterfaceConfig, run)
    missing = dict.fromkeys(config.without_images, "the dataset has no image of this class")
    missing |= dict.fromkeys(config.without_token, "no published token is of this class")
    tokens: dict[str, TokenResult] = {}
    cost = Cost()
    # One by one: the summary itself holds each token once, and nothing else is kept of an item.
    for item in items:
        if item.state != "done":
            missing[item.label] = _why(item)
        elif item.result is not None:
            tokens[item.label] = item.result.model_copy(update={"state": state_of(item.result)})
            cost += item.result.cost
    return DatasetInterfaceSummary(
        run_id=run.id,
        dataset=run.dataset,
        tokens=tokens,
        missing=missing,
        counts=run.request_counts,
        cost=cost,
        config=config,
    )


def state_of(token: TokenResult) -> FindingState | None:
    """Whether the images by token are shown to resemble the dataset more than those by name.

    ``holds``: the interval of the one lies above that of the other; ``breaks``: below; ``cannot-tell``: they
    overlap. None where one of them was not measured.
    """
    by_token, by_name = token.resemblance, token.name_resemblance
    if by_token is None or by_token.low is None or by_token.high is None:
        return None
    if by_name is None or by_name.low is None or by_name.high is None:
        return None
    if by_token.low > by_name.high:
        return "holds"
    return "breaks" if by_token.high < by_name.low else "cannot-tell"


def _why(item: TokenItem) -> str:
    if item.state == "failed":
        return f"{item.code}: {item.detail}"
    return "learning was cancelled" if item.state == "cancelled" else "the token is not learned yet"
