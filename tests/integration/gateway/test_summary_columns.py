"""Summaries from the ledger's columns: those of the items' documents, in order, for runs of all stages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterpose_core.contract.runs import Item
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.columns import columns_of, read_columns
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.summaries.summaries import Report, Summary
from fakes.gateway import FakeGateway, fake_gateway
from golden import Golden

# Written once by the code that read a document of each item, before there were columns.
SUMMARY = "summary_of_documents.json"
OF_THE_MACHINE = ("run_id", "service_seconds", "wall_s", "config", "cost")
NEWER = (
    "failure", "baseline", "kind", "suite_fit", "judged_again", "pairs_left", "least_pairs", "hopeless",
    "conjunction", "transforms", "frechet_corrected", "policy",
)  # fmt: skip
"""Fields that summaries got since."""


BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background", "object"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 1, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip


HARDEST = {"classifiers": ["steady"], "confirm": False}
"""A run without a finding, of which the first screen shows the hardest edit."""
OWN_EDITS = {
    "interventions": [{"removed": "", "added": "in the snow"}],
    "max_edits_per_image": 0,
    "lance_r_edits_per_image": 0,
}


async def recorded_run(gateway: FakeGateway, **changes: object) -> str:
    """A stress test that a worker took through all stages."""
    await gateway.upload("demo", 20, ("sled", "boat"))
    run_id: str = (await gateway.http.post("/v1/stress-tests", json=BODY | changes)).json()["id"]
    await gateway.worker(concurrency=1).work_off()
    assert gateway.ledger.runs.get(run_id).state in FINAL_RUN_STATES
    return run_id


async def test_summaries_from_columns_are_those_of_documents(tmp_path: Path, golden: Golden) -> None:
    async with fake_gateway(tmp_path) as gateway:
        ledger, run_id = gateway.ledger, await recorded_run(gateway)
        run, items = ledger.runs.get(run_id), list(ledger.items.of(run_id, Item))
        assert list(ledger.items.recorded(run_id, chunk=7)) == [RecordedItem.of(item) for item in items]
        found = summarize(run, read_columns(run, ledger))
        assert found == summarize(run, columns_of(items))
    # Ids of items begin with the run's id.
    document = json.loads(found.model_dump_json(by_alias=True).replace(run_id, "RUN"))
    golden.compare(document, golden.read(SUMMARY), without=(*OF_THE_MACHINE, *NEWER))


@pytest.mark.parametrize("changes", [{}, HARDEST, OWN_EDITS], ids=["findings", "hardest", "own edits"])
async def test_the_report_of_a_large_run_shows_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    async with fake_gateway(tmp_path) as gateway:
        run_id = await recorded_run(gateway, **changes)
        runs = RecordedRuns(ledger=gateway.ledger, store=gateway.store)
        summing = Summary(STRESS_TEST, run_id, None)
        report = Report(summing, summing(runs))
        whole = report(runs)
        assert 'class="pair of-3"' in whole
        monkeypatch.setattr("counterpose_gateway.methods.stress_test.method.MOST_READ", 10)
        monkeypatch.setattr(gateway.ledger.items, "of", None)
        assert report(runs) == whole
