"""The encoder's training: it needs no label, repeats itself, and what it saves is what the judge loads."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.judges import MOST_OF_CLASS, JudgeItem, Judgement, JudgeRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import load_suite
from counterpose_miniature.training import encoder
from counterpose_miniature.training.encoder_views import two_views
from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.stage import StageContext, figures_of
from counterpose_miniature.world import Scene, render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import DEVELOPMENT, balanced_scenes
from counterpose_services.scorer.encoder_judge import EncoderJudge

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
LOG = logging.getLogger("test")


def judged(root: Path, store: BlobStore, per_class: int) -> list[tuple[str, str, Judgement]]:
    """The label asked for, what is shown, and what the suite's judge says of rendered edits."""
    suite = load_suite("miniature").encoder
    assert suite is not None
    judge = EncoderJudge.load(suite, root, store)
    images: dict[str, list[str]] = {}
    for scene in balanced_scenes(DEVELOPMENT, DATASET, MOST_OF_CLASS + per_class, 7_000_000):
        images.setdefault(scene.object_class, []).append(store.put(encode_png(render(scene))))
    references = {label: refs[:MOST_OF_CLASS] for label, refs in images.items()}
    asked, items = [], []
    for label, other in zip(images, [*list(images)[1:], *list(images)[:1]], strict=True):
        for shown in (label, other):
            for ref in images[shown][MOST_OF_CLASS:]:
                item = {"label": label, "caption": "a", "edited_caption": "b"}
                items.append(
                    JudgeItem.model_validate(item | {"original": references[label][0], "edited": ref})
                )
                asked.append((label, shown))
    request = JudgeRequest(judge="encoder", items=items, references=references)
    answers = [outcome.unwrap() for outcome in judge.judge(request).outcomes]
    return [(*pair, answer) for pair, answer in zip(asked, answers, strict=True)]


def test_a_rehearsal_s_encoder_is_loaded_by_the_judge_and_has_figures(tmp_path: Path) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    encoder.train(context)
    figures = figures_of(context, encoder.STAGE)
    assert figures is not None
    assert figures["all"]["n"] == 80
    assert set(figures) == {"all", *VALUES["object_class"]}
    answers = judged(tmp_path / "out", BlobStore((tmp_path / "store").as_uri()), 1)
    assert {answer.verdict for *_, answer in answers} <= {"yes", "no"}


def test_training_repeats_itself_and_makes_no_scene_that_could_name_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [StageContext(tmp_path, tmp_path / name, smoke=True, threads=1) for name in ("a", "b")]
    for context in contexts:
        ImageSet(context.work / "images", 32).ensure(1)

    def refused(*_: object) -> None:
        raise AssertionError("a scene has labels")

    monkeypatch.setattr(Scene, "__post_init__", refused)
    first, second = (encoder.trained(context, LOG).state_dict() for context in contexts)
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(0)
    assert any(not torch.equal(first[name], value) for name, value in encoder._body().state_dict().items())


def test_views_keep_the_object_and_change_what_is_behind_it() -> None:
    masks = torch.zeros(8, 1, 64, 64)
    masks[:, :, 16:48, 16:48] = 1
    shown = torch.rand(8, 3, 1, 1, generator=torch.Generator().manual_seed(1)) * masks
    views = two_views(shown, masks, torch.Generator().manual_seed(2))
    assert views.shape == (16, 3, 64, 64)
    assert 0 <= float(views.min()) < float(views.max()) <= 1
    assert torch.equal(views, two_views(shown, masks, torch.Generator().manual_seed(2)))
    assert not torch.equal(views[:8], views[8:])


def test_a_view_that_is_nearest_to_its_twin_loses_least() -> None:
    twins = torch.eye(4).repeat(2, 1)
    assert encoder.contrast(twins) < 0.1
    assert encoder.contrast(torch.cat([twins[:4], twins[:4].roll(1, 0)])) > 4


@pytest.mark.floats
def test_the_suite_s_judge_tells_rendered_classes_apart(tmp_path: Path) -> None:
    answers = judged(WEIGHTS, BlobStore((tmp_path / "store").as_uri()), 4)
    for own in (True, False):
        said = [answer.verdict == "yes" for label, shown, answer in answers if (label == shown) == own]
        assert len(said) == 32
        assert sum(verdict == own for verdict in said) >= 29
