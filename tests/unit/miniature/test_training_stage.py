"""Stage contexts, checkpoints and learning rates."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from counterpose_miniature.training.stage import (
    Checkpoint,
    StageContext,
    checkpoint_of,
    figures_of,
    finish,
    learning_rate,
    stage_log,
    training_stage,
    write_atomically,
)


def _context(folder: Path, *, smoke: bool = False, seed: int = 0) -> StageContext:
    return StageContext(out=folder / "out", work=folder / "work", smoke=smoke, seed=seed)


def test_a_stage_trains_once_and_keeps_what_its_training_returned(tmp_path: Path) -> None:
    context, trained = _context(tmp_path), list[StageContext]()

    @training_stage("clip")
    def train(context: StageContext, log: logging.Logger) -> dict[str, float]:
        assert figures_of(context, "clip") is None
        trained.append(context)
        log.info("trained")
        return {"accuracy": 0.5}

    train(context)
    train(context)
    assert trained == [context]
    assert figures_of(context, "clip") == {"accuracy": 0.5}
    assert "trained" in (context.work / "clip" / "log.txt").read_text()


def test_a_stage_is_unfinished_until_its_figures_are_written(tmp_path: Path) -> None:
    context = _context(tmp_path)
    assert figures_of(context, "clip") is None
    finish(context, "clip", {"accuracy": 0.5})
    assert figures_of(context, "clip") == {"accuracy": 0.5}
    assert figures_of(context, "language") is None


def test_the_same_seed_and_offset_draw_the_same_numbers(tmp_path: Path) -> None:
    draws = [
        torch.rand(3, generator=_context(tmp_path, seed=s).generator(o)) for s, o in ((1, 2), (1, 2), (1, 3))
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_checkpoint_round_trips_tensors_and_plain_values(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.load() is None
    checkpoint.save({"step": 7, "weights": {"a": torch.arange(3)}})
    state = Checkpoint(tmp_path).load()
    assert state is not None
    assert state["step"] == 7
    assert torch.equal(state["weights"]["a"], torch.arange(3))


def test_a_checkpoint_is_due_only_after_its_interval(tmp_path: Path) -> None:
    assert not Checkpoint(tmp_path, seconds=3600.0).due()
    assert Checkpoint(tmp_path, seconds=0.0).due()
    assert checkpoint_of(_context(tmp_path, smoke=True), "clip").due()
    assert not checkpoint_of(_context(tmp_path), "clip").due()


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figures.json"
    write_atomically(path, b"old")

    def broken(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_log_has_one_line_per_message(tmp_path: Path) -> None:
    with stage_log(_context(tmp_path), "clip") as log:
        log.info("step %d", 50)
    assert (tmp_path / "work" / "clip" / "log.txt").read_text().rstrip().endswith("step 50")


def test_the_learning_rate_warms_up_holds_and_decays_to_two_percent() -> None:
    rates = [learning_rate(step, 100, 1.0, warm_up=10, hold=0.5) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[10:51] == [1.0] * 41
    assert all(left > right for left, right in pairwise(rates[51:]))
    assert rates[100] == pytest.approx(0.02)
