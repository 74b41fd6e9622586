"""The summary of an interface: the one that was made of a list of its items' documents."""

from __future__ import annotations

import json
from pathlib import Path

from counterpose_gateway.methods.dataset_interface.summary import summarize
from fakes.golden_summaries import near
from fakes.varied_interfaces import varied_interface

# Made once by the code that held a document of each item.
GOLDEN = Path(__file__).parent / "summary_of_documents.json"


def test_the_summary_is_that_of_documents() -> None:
    run, items = varied_interface(0)
    found = json.loads(summarize(run, items).model_dump_json(by_alias=True))
    near(found, json.loads(GOLDEN.read_text("utf-8")), without=("config", "published"))
