"""The summary of an interface: the one that was made of a list of its items' documents."""

from __future__ import annotations

import json

from counterpose_gateway.methods.dataset_interface.summary import summarize
from fakes.varied_interfaces import varied_interface
from golden import Golden

# Written once by the code that held a document of each item.
SUMMARY = "summary_of_documents.json"


def test_the_summary_is_that_of_documents(golden: Golden) -> None:
    run, items = varied_interface(0)
    found = json.loads(summarize(run, items).model_dump_json(by_alias=True))
    golden.compare(found, golden.read(SUMMARY), without=("config", "kind", "published"))
