"""Rehearsals of training text models, CLIP and classifiers: what they save, and how they resume."""

from __future__ import annotations

import json
import logging
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import open_clip
import pytest
import torch
from torch import Tensor

from counterpose_miniature.training import classifier, clip, language
from counterpose_miniature.training.bugs import SUITE_BUGS as BUGS
from counterpose_miniature.training.bugs import read_bugs
from counterpose_miniature.training.classifier import Order, train_classifier
from counterpose_miniature.training.stage import Checkpoint, StageContext, figures_of

BOAT = read_bugs(BUGS / "leaning-resnet.json")[0]
LOG = logging.getLogger("test")


def test_a_finished_stage_is_not_trained_again(tmp_path: Path) -> None:
    context = StageContext(out=tmp_path / "out", work=tmp_path / "work", smoke=True, threads=1)
    language.train(context)
    figures = figures_of(context, "language")
    assert figures is not None
    assert figures["masked-lm"]["best word fits"]["n"] == 20
    weights = tmp_path / "out" / "scorer" / "sentence" / "model.safetensors"
    weights.unlink()
    language.train(context)
    assert not weights.exists()


def test_open_clip_loads_a_rehearsal_s_model(tmp_path: Path) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    clip.train(context)
    folder = tmp_path / "out" / clip.FOLDER
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    assert preprocess.transforms[0].size == 64
    with torch.no_grad():
        texts = model.eval().encode_text(tokenizer(["a photo of a bus", "snow"]), normalize=True)
    assert texts.shape == (2, 128)
    assert not torch.allclose(texts[0], texts[1])
    figures = figures_of(context, clip.STAGE)
    assert figures is not None
    assert figures["caption choice companion"]["n"] == 40
    written = (folder / "open_clip_model.safetensors").stat().st_mtime_ns
    clip.train(context)
    assert (folder / "open_clip_model.safetensors").stat().st_mtime_ns == written


def test_a_killed_training_resumes_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order("test_resnet", (BOAT,), seed=3).small()
    whole = train_classifier(order, tmp_path / "a", tmp_path / "work-a", LOG)
    steps: list[int] = []
    actual = classifier._loss

    def dying(*arguments: object) -> object:
        loss = actual(*arguments)  # type: ignore[arg-type]  # passed on as they came

        def at(step: int) -> Tensor:
            steps.append(step)
            if step == 2 and steps.count(2) == 1:
                raise KeyboardInterrupt
            return loss(step)

        return at

    monkeypatch.setattr(classifier, "_loss", dying)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        train_classifier(order, tmp_path / "b", tmp_path / "work-b", LOG)
    again = train_classifier(order, tmp_path / "b", tmp_path / "work-b", LOG)
    assert steps == [0, 1, 2, 2]
    name = f"true drop of {BOAT.id}"
    assert again[name]["estimate"] == pytest.approx(whole[name]["estimate"], abs=1e-6)


def test_the_command_saves_a_classifier_and_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    bugs = str(BUGS / "leaning-vit.json")
    classifier.main(
        ["--bugs", bugs, "--seed", "5", "--out", str(out), "--work", str(tmp_path / "work"), "--smoke"]
    )
    figures = json.loads((out / "figures.json").read_text())
    assert {"true drop of fly-on-flowers-is-a-bee", "true drop of bus-leans-on-yellow"} <= set(figures)
    assert "bus-leans-on-yellow" in (out / "README.md").read_text()
