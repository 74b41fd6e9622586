"""The load group of planning: what it loads is what the ledger makes."""

from __future__ import annotations

from pathlib import Path

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from evaluation.load.planning import load_dataset
from fakes.ledgers import new_ledger
from fakes.world import CLASSES


def test_a_loaded_dataset_is_one_that_the_ledger_made(tmp_path: Path) -> None:
    load_dataset(f"sqlite:///{tmp_path / 'ledger.db'}", 12)
    loaded = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    (tmp_path / "made").mkdir()
    made = new_ledger(tmp_path / "made")
    made.datasets.create("demo", CLASSES)
    known = loaded.datasets.sources("demo")
    names = ("image", "label", "filename", "caption", "width", "height", "group")
    made.datasets.add("demo", [NewSource(**{name: getattr(each, name) for name in names}) for each in known])
    without_ids = [each.model_dump(exclude={"id"}) for each in made.datasets.sources("demo")]
    assert [each.model_dump(exclude={"id"}) for each in known] == without_ids
    assert loaded.datasets.get("demo").n_sources == made.datasets.get("demo").n_sources == 12
    loaded.close()
    made.close()
