"""Every saved tokenizer of transformers gives its own tokens, or is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import pytest
import transformers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.models.tokenizers import load_tokenizer
from fakes.tiny_models.words import tiny_tokenizer

NAMES = sorted(
    name
    for name in dir(transformers)
    # Other names of the library need libraries that are not here.
    if "Tokenizer" in name
    and isinstance(kind := getattr(transformers, name), type)
    and issubclass(kind, PreTrainedTokenizerBase)
)
OF_MODELS = {
    "BertTokenizer", "CLIPTokenizer", "DistilBertTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer",
    "GemmaTokenizer", "LlamaTokenizer", "LlamaTokenizerFast", "Qwen2Tokenizer", "RobertaTokenizer",
    "T5Tokenizer", "XLMRobertaTokenizer",
}  # fmt: skip
WORDS = ("a", "photo", "of", "red", "boat")
LETTERS = tuple(sorted(set("".join(WORDS))))
TEXTS = ("a photo of a boat", "red", "a photo, of zeppelins")


def vocabularies(special: list[str]) -> Iterator[dict[str, Any]]:
    """Yield arguments for the words of each kind of tokenizer: by words, by pairs, by scores."""
    pieces = [*special, *WORDS, *LETTERS]
    ids = {piece: row for row, piece in enumerate(dict.fromkeys(pieces))}
    marked = {piece: row for row, piece in enumerate(dict.fromkeys([*ids, *(f"Ġ{word}" for word in WORDS)]))}
    ended = {
        piece: row for row, piece in enumerate(dict.fromkeys([*ids, *(f"{each}</w>" for each in LETTERS)]))
    }
    yield {"vocab": ids}
    yield {"vocab": marked, "merges": []}
    yield {"vocab": ended, "merges": []}
    yield {"vocab": [(piece, 0.0 if row < len(special) else -1.0 - row) for piece, row in ids.items()]}
    yield {}


def made(kind: Any) -> PreTrainedTokenizerBase | None:
    """Make a tokenizer with a few words, or with what its class has without any; None if it cannot be."""
    try:
        special = list(dict.fromkeys(map(str, kind().all_special_tokens)))
    except Exception:
        special = ["<unk>", "<s>", "</s>", "<pad>"]
    for words in vocabularies(special):
        try:
            tokenizer: PreTrainedTokenizerBase = kind(**words)
            tokenizer(list(TEXTS))
        except Exception:
            continue  # The class takes words of another shape.
        return tokenizer
    return None


def outcome(folder: Path) -> PreTrainedTokenizerBase | str:
    try:
        return load_tokenizer(folder)
    except ModelFormatRefused as refused:
        return refused.detail


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_tokenizer_gives_its_own_tokens_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    kind = getattr(transformers, name)
    if (tokenizer := made(kind)) is None:
        assert name not in OF_MODELS
        return
    tokenizer.save_pretrained(tmp_path)
    if isinstance(read := outcome(tmp_path), str):
        assert "tokenizer" in read
        assert "\n" not in read
        assert name not in OF_MODELS
        return
    theirs = kind.from_pretrained(tmp_path)
    for text in TEXTS:
        assert read(text)["input_ids"] == theirs(text)["input_ids"]
        assert read.decode(read(text)["input_ids"]) == theirs.decode(theirs(text)["input_ids"])


def test_tokenizers_of_the_models_that_are_served_are_among_those_that_are_tried() -> None:
    assert set(NAMES) >= OF_MODELS


@pytest.mark.parametrize("name", sorted(OF_MODELS))
def test_a_tokenizer_without_the_file_of_its_words_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}), encoding="utf-8")
    with pytest.raises(ModelFormatRefused, match=r"has no words; add the file of its vocabulary"):
        load_tokenizer(tmp_path)


def nothing(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def broken_configuration(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{", encoding="utf-8")


def broken_words(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")


def words_without_pairs(folder: Path) -> None:
    nothing(folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CLIPTokenizer"}', encoding="utf-8")
    (folder / "vocab.json").write_text('{"a": 0}', encoding="utf-8")


def own_code(folder: Path) -> None:
    nothing(folder)
    told = {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["code.Mine", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    (folder / "code.py").write_text("raise SystemExit('this ran')", encoding="utf-8")


def words_in_boxes(folder: Path) -> None:
    nothing(folder)
    transformers.LayoutLMv3Tokenizer(vocab={"<unk>": 0, "a": 1}, merges=[]).save_pretrained(folder)


@pytest.mark.parametrize(
    "spoil", [nothing, broken_configuration, broken_words, words_without_pairs, own_code, words_in_boxes]
)
def test_a_folder_without_a_readable_tokenizer_is_refused_in_one_sentence(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelFormatRefused, match="has no tokenizer that transformers reads") as refused:
        load_tokenizer(tmp_path)
    assert "\n" not in refused.value.detail


def test_a_vocabulary_of_an_older_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nphoto\n", encoding="utf-8")
    assert load_tokenizer(tmp_path)("a photo")["input_ids"] == [2, 5, 6, 3]
    assert AutoTokenizer.from_pretrained(tmp_path)("a photo")["input_ids"] == [2, 5, 6, 3]
