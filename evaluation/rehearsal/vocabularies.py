"""Tokenizers in the formats of published models, with as many entries as the networks have rows.

Their words are learned from a few sentences; the entries beyond these are never read from a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, WordPiece
from transformers import PreTrainedTokenizerFast

from counterpose_services.perturber.prompts import OURS
from counterpose_services.serving.engine_trial import CAPTION, EDITED
from evaluation.rehearsal.architectures import (
    BERT_VOCABULARY,
    BLIP2_IMAGE_TOKEN,
    BLIP2_VOCABULARY,
    CLIP_LENGTH,
    CLIP_VOCABULARY,
    LLAMA_VOCABULARY,
)

START, END = "<|startoftext|>", "<|endoftext|>"


def sentences() -> list[str]:
    """Return what the rehearsal says to the models."""
    prompts = [
        OURS.instruction_prompt(instruction, CAPTION)
        for instructions in OURS.instructions.values()
        for instruction in instructions
    ]
    return [CAPTION, EDITED, "a photo of", *prompts]


def save_clip_tokenizer(folder: Path, pad: str = END) -> None:
    """Save CLIP's: words of bytes, each ending in ``</w>``, in lower case."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*letters, *(f"{letter}</w>" for letter in letters)]
    merges: list[tuple[str, str]] = []
    for word in sorted({word for text in (CAPTION, EDITED) for word in text.split()}):
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            pair = (parts[0], parts[1])
            merges += [pair] if pair not in merges else []
            parts = ["".join(pair), *parts[2:]]
    entries += [entry for left, right in merges if (entry := left + right) not in entries]
    entries = [*_filled(dict.fromkeys(entries), CLIP_VOCABULARY - 2), START, END]
    ids = {entry: number for number, entry in enumerate(entries)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "tokenizer_class": "CLIPTokenizer", "model_max_length": CLIP_LENGTH, "bos_token": START,
        "eos_token": END, "unk_token": END, "pad_token": pad, "do_lower_case": True,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _filled(entries: Iterable[str], size: int, space: str = "") -> list[str]:
    """Add entries that no text contains up to ``size``, each after the tokenizer's mark of a space."""
    known = list(entries)
    return known + [f"{space}unused{number}" for number in range(size - len(known))]


def _trained(
    tokenizer: Tokenizer, specials: list[str], alphabet: list[str], size: int, space: str
) -> dict[str, int]:
    """Learn pairs from the sentences; return the ids of all entries."""
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    ids = tokenizer.get_vocab()
    entries = _filled(sorted(ids, key=lambda entry: ids[entry]), size, space)
    return {entry: number for number, entry in enumerate(entries)}


def _merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def save_opt_tokenizer(folder: Path) -> None:
    """Save OPT's: words of bytes, ``</s>`` in front, and BLIP-2's token of an image."""
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trained = Tokenizer(BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ids = _trained(trained, specials, sorted(pre_tokenizers.ByteLevel.alphabet()), BLIP2_IMAGE_TOKEN, "Ġ")
    tokenizer = Tokenizer(BPE(vocab=ids, merges=_merges(trained)))
    tokenizer.pre_tokenizer, tokenizer.decoder = trained.pre_tokenizer, decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="</s> $A", special_tokens=[("</s>", ids["</s>"])]
    )
    tokenizer.add_special_tokens([AddedToken("<image>", special=True)])
    tokenizer.add_tokens([f"unused-image{number}" for number in range(BLIP2_VOCABULARY - len(ids) - 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="</s>", eos_token="</s>", unk_token="</s>", pad_token="<pad>",
        model_max_length=2048,
    ).save_pretrained(folder)  # fmt: skip


def save_llama_tokenizer(folder: Path) -> None:
    """Save LLaMA's: sentence pieces, and bytes for what they lack."""
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained = Tokenizer(BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    ids = _trained(trained, specials, [], LLAMA_VOCABULARY, "▁")
    tokenizer = Tokenizer(BPE(vocab=ids, merges=_merges(trained), unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = pieces
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", ids["<s>"])]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=2048,
    ).save_pretrained(folder)


def save_bert_tokenizer(folder: Path) -> None:
    """Save BERT's: word pieces in lower case, between ``[CLS]`` and ``[SEP]``."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word for text in (CAPTION, EDITED) for word in text.split()})
    entries = _filled(dict.fromkeys([*specials, *words, "bird", "cat", "horse"]), BERT_VOCABULARY)
    ids = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(WordPiece(vocab=ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]",
        cls_token="[CLS]", mask_token="[MASK]", model_max_length=512,
    ).save_pretrained(folder)  # fmt: skip
