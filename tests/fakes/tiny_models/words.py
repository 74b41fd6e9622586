"""A word-level tokenizer over a few words."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<bos>", "<unk>", "<eos>", "<mask>")
WORDS = (
    "a", "the", "red", "blue", "green", "boat", "tram", "sled", "on", "at", "in", "snow", "sea", "night",
    "photo", "of", "with", "dogs", "and", "subject", "object", "background", "adjective", "domain", "placebo",
    ":", "=>", ".", ",",
)  # fmt: skip


def tiny_tokenizer(*, closing: bool = True) -> PreTrainedTokenizerFast:
    """Return ``<bos> words <eos>``; without ``closing`` a text has no end mark."""
    ids = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    template = "<bos> $A <eos>" if closing else "<bos> $A"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(mark, ids[mark]) for mark in ("<bos>", "<eos>")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        pad_token="<pad>",
        bos_token="<bos>",
        unk_token="<unk>",
        eos_token="<eos>",
        mask_token="<mask>",
    )
