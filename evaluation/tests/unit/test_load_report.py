"""The load report: a row knows whether its target is met, and groups that are not measured are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.load import __main__ as command
from evaluation.load.measuring import Load, quantile, row
from evaluation.load.report import LoadReport, LoadRow


def _one(value: float, **given: object) -> LoadRow:
    return row("tried", "a figure", "ms", [value], meets=("L1",), **given)


@pytest.mark.parametrize(("side", "met"), [("at most", True), ("at least", False)])
def test_a_row_knows_whether_its_target_is_met(side: str, met: bool) -> None:
    assert _one(3.0, target=5.0, side=side).met is met
    assert _one(3.0).met is None


def test_quantiles_are_of_the_values() -> None:
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]


def test_groups_that_are_not_measured_are_kept_and_a_missed_target_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"tried": 3.0, "other": 9.0}

    def measured(name: str) -> command.Group:
        def rows(load: Load) -> Iterator[LoadRow]:
            yield row(name, f"{name} figure", "ms", [values[name]], meets=(), target=5.0)

        return rows

    monkeypatch.setattr(command, "GROUPS", {name: measured(name) for name in values})
    out = ["--out", str(tmp_path / "load.json")]
    assert command.main([*out, "--only", "tried,other"]) == 1
    assert "missed: other figure: 9 ms, at most 5" in capsys.readouterr().out
    values |= {"other": 4.0, "tried": 99.0}
    assert command.main([*out, "--only", "other"]) == 0
    written = LoadReport.model_validate_json((tmp_path / "load.json").read_bytes())
    assert [each.value for each in written.rows] == [3.0, 4.0]


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
    assert "no such group: nothing" in capsys.readouterr().err
