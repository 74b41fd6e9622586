"""BLIP-2 folders of older releases caption as later ones do, or are refused in one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.errors import ModelFormatRefused
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.engine import CaptionerEngine
from fakes.tiny_classifiers import put_image
from fakes.tiny_models.blip2 import save_blip2
from fakes.tiny_models.words import tiny_tokenizer

SUITE = CaptionerSuite(model="blip2", beams=2, min_tokens=2, max_tokens=6)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("captioner")
    save_blip2(root / "blip2")
    return root


def loaded(root: Path) -> CaptionerEngine:
    return CaptionerEngine.load(SUITE, root, BlobStore(str(root / "store")))


def rewritten(folder: Path, file: str, drop: tuple[str, ...] = (), **fields: object) -> None:
    found = json.loads((folder / file).read_text("utf-8")) | fields
    kept = {name: value for name, value in found.items() if name not in drop}
    (folder / file).write_text(json.dumps(kept), encoding="utf-8")


def without_image_token(folder: Path) -> None:
    rewritten(folder, "config.json", drop=("image_token_index", "image_token_id"))


def test_the_tokenizer_s_image_token_stands_in_where_the_configuration_has_none(
    whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole / "blip2", tmp_path / "blip2")
    without_image_token(tmp_path / "blip2")
    answers = []
    for root in (whole, tmp_path):
        engine = loaded(root)
        items = [CaptionItem(image=put_image(engine._store, seed)) for seed in range(3)]
        answers.append([one.unwrap() for one in engine.caption(CaptionRequest(items=items)).outcomes])
    assert answers[0] == answers[1]


def neither_token(folder: Path) -> None:
    without_image_token(folder)
    tiny_tokenizer(closing=False).save_pretrained(folder)


def token_beyond_the_table(folder: Path) -> None:
    rewritten(folder, "config.json", image_token_index=5000)


def no_processor(folder: Path) -> None:
    for file in folder.glob("*processor_config.json"):
        file.unlink()


def no_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()


def no_words(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")


def no_configuration(folder: Path) -> None:
    (folder / "config.json").unlink()


def another_processor(folder: Path) -> None:
    no_processor(folder)
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "Siglip2ImageProcessor"}')


def no_padding(folder: Path) -> None:
    tokenizer = tiny_tokenizer(closing=False)
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (neither_token, "image_token_index of config.json, or else '<image>' of the tokenizer, is None"),
        (token_beyond_the_table, "is 5000; take a later revision"),
        (no_processor, "'blip2' has no image processor that transformers reads"),
        (no_tokenizer, "the tokenizer in 'blip2', a GPT2Tokenizer, has no words"),
        (no_words, "has no words; add the file of its vocabulary"),
        (no_configuration, r"blip2' has no config\.json; add it"),
        (another_processor, "gives 'pixel_attention_mask' beside or in place of the pixels"),
        (no_padding, "has no token for padding"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused_in_one_sentence(
    spoil: Callable[[Path], None], told: str, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole / "blip2", tmp_path / "blip2")
    spoil(tmp_path / "blip2")
    with pytest.raises(ModelFormatRefused, match=told) as refused:
        loaded(tmp_path)
    assert "\n" not in refused.value.detail
