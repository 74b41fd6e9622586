"""The word-level tokenizer, as built and as reloaded."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer

from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_miniature.world.grammar import words


def test_a_caption_is_framed_and_padded_to_the_maximum_length() -> None:
    tokenizer = build_tokenizer(words())
    found = tokenizer("a red bus", padding="max_length", truncation=True)["input_ids"]
    spoken = tokenizer.convert_ids_to_tokens(found)
    assert len(found) == 24
    assert spoken[:6] == ["<bos>", "a", "red", "bus", "<eos>", "<pad>"]


def test_capitals_and_punctuation_are_tokenized_and_other_words_are_unknown() -> None:
    tokenizer = build_tokenizer(["a", "bus", ","])
    found = tokenizer.convert_ids_to_tokens(tokenizer("A bus, zeppelin")["input_ids"])
    assert found == ["<bos>", "a", "bus", ",", "<unk>", "<eos>"]


def test_a_long_text_is_truncated_but_keeps_its_end_token() -> None:
    tokenizer = build_tokenizer(["a"])
    found = tokenizer(" ".join(["a"] * 60), truncation=True)["input_ids"]
    assert len(found) == 24
    assert found[-1] == tokenizer.eos_token_id


def test_decoding_restores_the_caption() -> None:
    tokenizer = build_tokenizer(["a", "bus", "on", "snow", ","])
    found = tokenizer("a bus on snow, a bus")["input_ids"]
    assert tokenizer.decode(found, skip_special_tokens=True) == "a bus on snow, a bus"


def test_the_saved_folder_loads_as_an_ordinary_tokenizer(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(words())
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("a red bus")["input_ids"] == tokenizer("a red bus")["input_ids"]
    assert (loaded.mask_token, loaded.pad_token, loaded.model_max_length) == ("<mask>", "<pad>", 24)
