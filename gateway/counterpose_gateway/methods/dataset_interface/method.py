"""The dataset interface as a method of the gateway. Tokens are not a dataset, so it has no export."""

from __future__ import annotations

from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    TokenItem,
)
from counterpose_gateway.methods.dataset_interface.plan import plan, rest_of_plan
from counterpose_gateway.methods.dataset_interface.process import process
from counterpose_gateway.methods.dataset_interface.report import headline, render
from counterpose_gateway.methods.dataset_interface.summary import summarize
from counterpose_gateway.reports.states import worst
from counterpose_gateway.runs.method import Headline, Method, OfItems


def _headline(summary: DatasetInterfaceSummary) -> Headline:
    return Headline(headline(summary), worst(token.state for token in summary.tokens.values()))


DATASET_INTERFACE = Method(
    kind="dataset-interface",
    needs=("captioner", "editor", "scorer"),
    abilities=("tokens", "draw"),
    create=DatasetInterfaceCreate,
    item=TokenItem,
    summary=DatasetInterfaceSummary,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=render,
    headline=_headline,
    rest_of_plan=rest_of_plan,
)
