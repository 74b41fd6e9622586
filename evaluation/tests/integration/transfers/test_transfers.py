"""A small evaluation from end to end, with the suite's own weights in place of trainings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from counterpose_miniature.training.classifiers import DEFAULTS
from evaluation.paths import SUITE_WEIGHTS
from evaluation.transfers import validate
from evaluation.transfers.report import TransferReport
from evaluation.transfers.roster import COLUMNS, COPIES, SOURCES, architecture_of
from evaluation.transfers.training import order_of

SMALL = [
    "--seeds", "80", "--real", "24", "--captions", "3", "--samples", "16", "--kept", "8", "--images", "115",
    "--baseline", "8", "--steps", "2", "--processes", "1",
]  # fmt: skip
SOURCE, COPY = "leaning-resnet", "local:leaning-resnet-reseeded"


def test_the_classifiers_are_the_suite_s_and_copies_share_their_images_and_lessons() -> None:
    assert list(SOURCES) == list(DEFAULTS)
    assert [architecture_of(name) for name in SOURCES] == list(DEFAULTS.values())
    for copy in COPIES:
        order = order_of(copy)
        assert (order.images_of, order.seed >= 900) == (list(DEFAULTS).index(copy.source), True)
        assert order.architecture == DEFAULTS[copy.source]
        assert order.bugs


@pytest.mark.paper("BUGS-S4.2-in-g-rn")
def test_an_exact_copy_fails_on_every_image_and_what_is_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copy in COPIES:
        shutil.copytree(SUITE_WEIGHTS / "classifiers" / copy.source, copy.folder(tmp_path / "classifiers"))
        copy.done(tmp_path / "classifiers").touch()
    monkeypatch.setattr(validate, "SOURCES", (SOURCE,))
    out = tmp_path / "out.json"
    given = [*SMALL, "--state", str(tmp_path), "--out", str(out)]
    # The part in this process, so that it makes the one dataset alone.
    validate.main([*given, "--part", "0/1"])
    validate.main([*given, "--report"])
    made = TransferReport.model_validate_json(out.read_bytes())
    dataset = made.datasets[0]
    assert dataset.kept >= 3
    assert dataset.by_choice.estimate == 1.0
    assert dataset.curse is not None
    # The features of usual scenes are recorded with the first classifier's dataset.
    assert made.distances is None
    cells = {cell.column: cell for cell in made.cells}
    assert set(cells) == set(COLUMNS)
    assert cells[COPY].rate.estimate == 1.0
    assert cells[COPY].unchosen == cells[SOURCE].unchosen == dataset.unchosen
    assert (cells[SOURCE].p, cells[COPY].rate.n) == (None, dataset.kept)
    assert {each.other for each in made.contrasts} == set(COLUMNS) - {SOURCE, COPY}
    assert made.setting.wild_failures[SOURCE] == made.setting.wild_failures[COPY]
    assert made.setting.wild_failures[SOURCE].estimate == dataset.seeds_that_fool.estimate
    monkeypatch.setattr(validate, "load_engines", None)
    again_out = tmp_path / "again.json"
    validate.main([*SMALL, "--state", str(tmp_path), "--out", str(again_out), "--report"])
    assert again_out.read_bytes() == out.read_bytes()
