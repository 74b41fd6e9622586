"""The stress test: LANCE's Algorithm 1, one source at a time, from caption to recorded counterfactuals."""

from __future__ import annotations

from faultline_core.contract.stress_tests import StressTestConfig
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedGroup, LeasedItem, Recorder
from faultline_gateway.workflows.attempt import Attempt, Store, settle
from faultline_gateway.workflows.chosen_edits import make_chosen_edits
from faultline_gateway.workflows.counterfactuals import make_counterfactuals
from faultline_gateway.workflows.objectionable import drop_objectionable
from faultline_gateway.workflows.pictures import reconstruct
from faultline_gateway.workflows.planning import plan
from faultline_gateway.workflows.predictions import predict
from faultline_gateway.workflows.proposals import draw_proposals, write_caption
from faultline_gateway.workflows.random_words import replace_random_words
from faultline_gateway.workflows.records import add_records
from faultline_gateway.workflows.summary import summarize
from faultline_gateway.workflows.text_filters import keep_edits

__all__ = ["plan", "process", "summarize"]


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Work through the leased items of one source and record each exactly once.

    A bad item fails alone; a call that fails as a whole fails the items that needed it.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = group.config
    if not isinstance(config, StressTestConfig):
        raise TypeError(f"run {group.run_id} is no stress test")
    attempt = Attempt(group, config, record, store)
    await settle(attempt, group, _work_through(attempt, group.items[0], services))


async def _work_through(attempt: Attempt, source: LeasedItem, services: Services) -> None:
    caption = await write_caption(attempt, source, services)
    proposals = await draw_proposals(attempt, source, caption, services)
    edits = await keep_edits(attempt, source.label, proposals, services)
    edits += await replace_random_words(attempt, source, caption, services)
    edits += await make_chosen_edits(attempt, source, caption)
    # The reconstruction goes first: it leaves the inversion in the cache that every edit starts from.
    control = await reconstruct(attempt, source, caption, services)
    counterfactuals = await make_counterfactuals(attempt, source, caption, edits, services)
    threshold = attempt.config.objectionable
    drafts = await drop_objectionable(attempt, [*control, *counterfactuals], threshold, services)
    drafts = await add_records(attempt, source, drafts, services)
    await predict(attempt, source, drafts, services)
