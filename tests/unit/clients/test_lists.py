"""What ``list()`` returns where a list is one answer: it is used like the list of its entries."""

from __future__ import annotations

from typing import Any

import pytest

from counterpose_core.contract.datasets import DatasetList
from fakes.sdk import Session, ok

DATASETS = [
    {
        "name": name, "classes": ["bus"], "n_sources": 1, "digest": "d" * 64,
        "created_at": "2026-01-01T00:00:00Z", "rejected": [],
    }
    for name in ("one", "two")
]  # fmt: skip
SERVICES = [{"service": name, "ready": True, "circuit": "closed"} for name in ("editor", "scorer")]
CLASSIFIERS = [{"name": name, "spec": name} for name in ("first", "second")]


@pytest.mark.parametrize(
    ("field", "entries", "name"),
    [("datasets", DATASETS, "name"), ("services", SERVICES, "service"), ("classifiers", CLASSIFIERS, "spec")],
)
def test_a_list_is_iterated_counted_and_indexed_like_its_entries(
    kind: str, field: str, entries: list[dict[str, Any]], name: str
) -> None:
    session = Session(kind, ok({field: entries}), ok({field: []}))
    found = session(lambda client: getattr(client, field).list())
    assert [getattr(entry, name) for entry in found] == [entry[name] for entry in entries]
    assert (len(found), getattr(found[-1], name)) == (2, entries[-1][name])
    assert list(found) == getattr(found, field)
    assert not session(lambda client: getattr(client, field).list())


def test_a_list_is_still_a_body() -> None:
    body = DatasetList.model_validate({"datasets": DATASETS})
    assert DatasetList.model_validate_json(body.model_dump_json()) == body
    assert set(body.model_dump()) == {"datasets"}
