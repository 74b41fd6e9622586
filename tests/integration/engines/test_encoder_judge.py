"""The judge by a second encoder, over networks as transformers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BitImageProcessor,
    ConvNextConfig,
    ConvNextImageProcessor,
    ConvNextModel,
    Dinov2Config,
    Dinov2Model,
)

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.judges import JudgeItem, Judgement, JudgeRequest
from counterpose_core.errors import ImageUndecodable, ModelFormatRefused, UnknownModel
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import EncoderSuite
from counterpose_services.scorer.encoder_judge import EncoderJudge


def dinov2(folder: Path) -> Path:
    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=14
    )
    Dinov2Model(config).save_pretrained(folder)
    square = {"height": 28, "width": 28}
    BitImageProcessor(size={"shortest_edge": 28}, crop_size=square).save_pretrained(folder)
    return folder


def convnext(folder: Path) -> Path:
    torch.manual_seed(0)
    config = ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], image_size=32)
    ConvNextModel(config).save_pretrained(folder)
    ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=1.0).save_pretrained(folder)
    return folder


def put(store: BlobStore, shade: int, channel: int) -> str:
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[..., channel] = shade
    return store.put(encode_raw(pixels))


def judged(folder: Path, store: BlobStore, references: dict[str, list[str]], **item: str) -> Judgement:
    judge = EncoderJudge(folder, EncoderSuite(model="net", batch=2), store)
    asked = JudgeItem.model_validate({"label": "red", "caption": "a", "edited_caption": "b"} | item)
    request = JudgeRequest(judge="encoder", items=[asked], references=references)
    return judge.judge(request).outcomes[0].unwrap()


@pytest.mark.floats
@pytest.mark.parametrize("saved", [dinov2, convnext])
def test_an_edit_is_right_where_it_is_nearest_to_its_own_class(tmp_path: Path, saved: Any) -> None:
    store, folder = BlobStore(str(tmp_path / "store")), saved(tmp_path / "net")
    references = {
        name: [put(store, shade, channel) for shade in (250, 240, 230)]
        for name, channel in (("red", 0), ("blue", 2))
    }
    original = references["red"][0]
    right = judged(folder, store, references, original=original, edited=put(store, 245, 0))
    assert (right.verdict, right.replies) == ("yes", {"object": "yes"})
    assert right.score is not None
    assert right.score > 0
    wrong = judged(folder, store, references, original=original, edited=put(store, 245, 2))
    assert (wrong.verdict, wrong.detail) == ("no", "nearer to 'blue'")


@pytest.mark.floats
def test_a_source_vouches_for_no_edit_of_its_own(tmp_path: Path) -> None:
    store, folder = BlobStore(str(tmp_path / "store")), dinov2(tmp_path / "net")
    own, blue = put(store, 250, 0), put(store, 250, 2)
    # Without the source, red is what blue looks like.
    references = {"red": [own, blue], "blue": [put(store, 235, 0)]}
    found = judged(folder, store, references, original=own, edited=own)
    assert found.verdict == "no"
    alone = judged(folder, store, {"red": [own], "blue": [blue]}, original=own, edited=own)
    assert (alone.verdict, alone.detail) == ("unsure", "the run has no other image of 'red' to compare with")
    single = judged(folder, store, {"red": [blue]}, original=own, edited=own)
    assert (single.verdict, single.detail) == (
        "unsure",
        "the run has no other image of any other class to compare with",
    )


@pytest.mark.floats
def test_a_reference_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path) -> None:
    store, folder = BlobStore(str(tmp_path / "store")), dinov2(tmp_path / "net")
    red, blue, broken = put(store, 250, 0), put(store, 250, 2), store.put(b"half a file")
    edit = {"original": put(store, 200, 0), "edited": put(store, 245, 0)}
    right = judged(folder, store, {"red": [red], "blue": [blue, broken]}, **edit)
    told = "without 1 of 3 references, which cannot be read"
    assert (right.verdict, right.detail) == ("yes", told)
    whole = judged(folder, store, {"red": [red], "blue": [blue]}, **edit)
    assert right.score == whole.score
    wrong = judged(folder, store, {"red": [blue], "blue": [red, broken]}, **edit)
    assert (wrong.verdict, wrong.detail) == ("no", f"nearer to 'blue', {told}")
    gone = judged(folder, store, {"red": [red], "blue": [broken]}, **edit)
    assert gone.verdict == "unsure"
    # It is not the edit's fault, and a call that reads them judges it.
    with pytest.raises(ImageUndecodable):
        judged(folder, store, {"red": [broken], "blue": [blue]}, **edit)


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    suite, store = EncoderSuite(model="net"), BlobStore(str(tmp_path / "store"))
    with pytest.raises(UnknownModel, match="net"):
        EncoderJudge.load(suite, tmp_path, store)
    folder = dinov2(tmp_path / "net")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ModelFormatRefused, match="preprocessor_config"):
        EncoderJudge(folder, suite, store)
