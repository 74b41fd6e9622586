"""Hunts by other words are kept apart from the usual ones."""

from __future__ import annotations

from pathlib import Path

from evaluation.hunt_validity.validate import OUT, parsed, studies_of


def test_other_words_are_kept_apart_and_the_usual_ones_change_no_key(tmp_path: Path) -> None:
    usual = parsed(["--state", str(tmp_path)])
    likely = parsed(["--state", str(tmp_path), "--words", "likelihood"])
    assert usual.out == OUT
    assert likely.out == OUT.with_name("hunt-validity-likelihood.json")
    assert all("words" not in study.shared for study in studies_of(usual))
    assert all(study.shared["words"] == "likelihood" for study in studies_of(likely))
