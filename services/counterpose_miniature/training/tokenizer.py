"""The word-level tokenizer of all miniature models, over the world's closed vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from counterpose_miniature.world import grammar

# The end token must not have id 2, with which CLIPTextModel pools at the largest id instead.
SPECIAL_TOKENS: tuple[str, ...] = ("<pad>", "<bos>", "<unk>", "<eos>", "<mask>")
MAX_LENGTH = 24
_TOKEN = r"[a-z]+(?:-[a-z]+)*|[^\sa-z]"


def build_tokenizer(words: Iterable[str], max_length: int = MAX_LENGTH) -> PreTrainedTokenizerFast:
    """Return a lower-casing word-level tokenizer: `<bos> words <eos>`, padded on the right with `<pad>`.

    Ids are the special tokens first, then `words` in the given order; unknown words become `<unk>`.
    """
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys((*SPECIAL_TOKENS, *words)))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_TOKEN), behavior="removed", invert=True)
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    ends = [(token, vocabulary[token]) for token in ("<bos>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="<pad>",
        bos_token="<bos>",
        unk_token="<unk>",
        eos_token="<eos>",
        mask_token="<mask>",
        padding_side="right",
    )


def caption_tokenizer(
    *extra_words: str, closing: bool = True, max_length: int = 24
) -> PreTrainedTokenizerFast:
    """Return the world's tokenizer with further words; without `closing`, texts get no end token."""
    tokenizer = build_tokenizer((*grammar.words(), *extra_words), max_length)
    if not closing:
        bos = tokenizer.bos_token
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
        )
    return tokenizer
