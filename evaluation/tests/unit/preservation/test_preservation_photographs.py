"""A cut-out before another ground is right; moved, recoloured or ignored it is a fault with its name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterpose_core.preservation.limits import Limits
from evaluation.paths import RESULTS
from evaluation.preservation import photographs
from evaluation.preservation.photographs import (
    MOVED,
    SIDE,
    composited,
    cutouts,
    figures,
    measured,
    object_mask,
)
from fakes.textures import textured


def write_cutouts(folder: Path, count: int) -> None:
    """Write discs with texture, and a photograph without a mask that is none."""
    down, across = np.mgrid[:100, :100]
    disc = np.where(np.hypot(down - 50, across - 50) < 45, 255, 0).astype(np.uint8)
    for index in range(count):
        folder.joinpath("animals").mkdir(exist_ok=True)
        levels = np.dstack([textured(index, (100, 100)), disc])
        Image.fromarray(levels).save(folder / f"animals/{index}.png")
    Image.fromarray(textured(99)).save(folder / "whole.png")


def grounds() -> list[Image.Image]:
    return [Image.fromarray(textured(seed, (256, 256))) for seed in (50, 51, 52)]


def test_each_answer_is_refused_as_what_it_is(tmp_path: Path) -> None:
    write_cutouts(tmp_path, 3)
    result = figures(measured(tmp_path, grounds(), np.random.default_rng(0)), Limits())
    assert result["cutouts"] == 3
    assert result["answers"]["as asked"]["refused"]["estimate"] == 0.0
    for fault in photographs.FAULTS:
        assert result["answers"][fault]["named"]["estimate"] == 1.0, fault
    assert set(result["missing"]) >= {"patches: not-given", "perceptual: not-given"}


def test_a_mask_is_where_the_object_is(tmp_path: Path) -> None:
    write_cutouts(tmp_path, 1)
    ((name, cutout),) = cutouts(tmp_path)
    assert name == "animals/0.png"
    mask = object_mask(cutout)
    first, second = (composited(cutout, ground.resize((SIDE, SIDE))) for ground in grounds()[:2])
    same = (first == second).all(axis=-1)
    # Its soft edge shows some of the ground.
    assert (same & mask).sum() / mask.sum() > 0.9
    assert (same & ~mask).mean() < 0.05
    moved = composited(cutout, grounds()[0].resize((SIDE, SIDE)), MOVED)
    assert (moved[:, 12:][mask[:, :-12]] == first[:, :-12][mask[:, :-12]]).mean() > 0.9


def test_a_folder_without_cut_outs_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    Image.fromarray(textured(1)).save(tmp_path / "whole.png")
    with pytest.raises(SystemExit, match="no PNG with an alpha channel"):
        photographs.main([str(tmp_path)])


def test_the_committed_figures_are_of_the_same_answers() -> None:
    committed = json.loads((RESULTS / "preservation-photographs.json").read_bytes())
    assert set(committed["answers"]) == {"as asked", *photographs.FAULTS}
    assert committed["cutouts"] == 54
