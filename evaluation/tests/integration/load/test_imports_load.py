"""The load group of imports: 2,000 items are planned from a WebDataset index of 250 images that it writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from counterpose_gateway.ledger import Ledger
from evaluation.load.imports import PER_SOURCE, imports
from evaluation.load.measuring import Load
from evaluation.load.report import Growth, LoadRow


def test_two_thousand_items_are_planned_from_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Their memory is not what this test is about, and a process takes seconds to start.
    monkeypatch.setattr(
        "evaluation.load.imports.ProcessPoolExecutor", lambda workers, _: ThreadPoolExecutor(workers)
    )
    found = list(imports(Load(tmp_path, quick=True)))
    rows = [each for each in found if isinstance(each, LoadRow)]
    assert [each.unit for each in rows] == ["images/s", "items/s", "MB", "MB"]
    assert all(each.value > 0 for each in rows[:2])
    assert sum(isinstance(each, Growth) for each in found) == 3
    with closing(Ledger(f"sqlite:///{tmp_path / '250' / 'ledger.db'}")) as ledger:
        (run,) = ledger.runs.page().runs
        assert run.request_counts.total == 250 * PER_SOURCE
        assert len({source.image for source in ledger.datasets.sources("demo")}) == 250
