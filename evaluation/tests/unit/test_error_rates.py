"""The simulated rates: none is beyond its limit, and a limit that is broken is noticed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import proportion
from evaluation.error_rates import __main__ as command
from evaluation.error_rates.cells import CELLS, alarms
from evaluation.error_rates.proofs import false_proofs
from evaluation.error_rates.two_stages import confirmations
from evaluation.error_rates.world import draw_sources


@pytest.mark.parametrize("name", CELLS)
def test_a_rate_keeps_its_limit(name: str) -> None:
    cell = CELLS[name]
    rate, _ = cell.simulate(24, np.random.default_rng([1, len(name)]))
    assert cell.holds(rate), f"{rate}, {'at most' if cell.most else 'at least'} {cell.limit}"


def test_a_rate_beyond_its_limit_is_noticed() -> None:
    cell = alarms("D2", lambda replicates, _: proportion(replicates // 3, replicates))
    assert not cell.holds(cell.simulate(60, np.random.default_rng(0))[0])
    assert cell.holds(proportion(3, 60))


@pytest.mark.parametrize("wrong", [{"family": 1}, {"screen_counts": True}], ids=str)
def test_proofs_that_forget_the_family_or_count_the_screen_are_noticed(wrong: dict[str, Any]) -> None:
    rate = false_proofs("fickle", 80, np.random.default_rng(7), **wrong)
    assert not alarms("proofs", lambda replicates, _: rate).holds(rate), rate


def test_small_folders_are_confirmed_by_draws_alone() -> None:
    generators = np.random.default_rng(7), np.random.default_rng(7)
    found = [
        confirmations(48, 4, generator, draws=draws).recall.estimate
        for generator, draws in zip(generators, (True, False), strict=True)
    ]
    assert (found[0] or 0.0) > 0.15
    assert found[1] == 0.0


def test_near_duplicates_are_alike_and_other_sources_are_not() -> None:
    drawn = draw_sources(4000, 1, np.random.default_rng(2), block=2, gated=False)
    first, second = drawn.original.reshape(-1, 2).T
    assert np.corrcoef(first, second)[0, 1] > 0.85
    assert abs(np.corrcoef(first[:-1], second[1:])[0, 1]) < 0.1


def test_the_command_writes_every_rate_and_fails_on_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rates.json"
    broken = alarms("D2", lambda replicates, _: proportion(replicates, replicates))
    name = "few placebos of the own class"
    cells = {name: CELLS[name], "bad": broken}
    monkeypatch.setattr(command, "simulate", lambda r, s, known, full: SIMULATE(r, s, cells, full=full))
    monkeypatch.setattr(sys, "argv", ["error_rates", "--replicates", "20", "--out", str(out)])
    assert command.main() == 1
    rates = json.loads(out.read_text(encoding="utf-8"))["rates"]
    assert {each: row["holds"] for each, row in rates.items()} == {name: True, "bad": False}


def test_new_rates_are_put_among_the_others_as_the_whole_command_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rates.json"
    cells = {name: cell for name, cell in CELLS.items() if cell.defect in ("D1", "D11")}
    monkeypatch.setattr(
        command, "simulate", lambda r, s, known, full: SIMULATE(r, s, cells, known, full=full)
    )
    monkeypatch.setattr(sys, "argv", ["error_rates", "--replicates", "20", "--out", str(out)])
    assert command.main() == 0
    whole = out.read_text(encoding="utf-8")
    found = json.loads(whole)
    del found["rates"]["called unfit, controls change 1 % of 48 answers"]
    out.write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--new"])
    assert command.main() == 0
    assert out.read_text(encoding="utf-8") == whole
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--seed", "1"])
    with pytest.raises(SystemExit, match="another seed"):
        command.main()


def test_a_costly_rate_gets_all_replicates_when_asked_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rates.json"
    cells = {name: cell for name, cell in CELLS.items() if cell.defect == "D4"}
    monkeypatch.setattr(
        command, "simulate", lambda r, s, known, full: SIMULATE(r, s, cells, known, full=full)
    )
    counts = []
    for options in ([], ["--new", "--full"]):
        monkeypatch.setattr(sys, "argv", ["error_rates", "--replicates", "20", "--out", str(out), *options])
        assert command.main() == 0
        (row,) = json.loads(out.read_text(encoding="utf-8"))["rates"].values()
        counts.append((row["replicates"], row["rate"]["n"]))
    assert counts == [(10, 10), (20, 20)]


SIMULATE = command.simulate
