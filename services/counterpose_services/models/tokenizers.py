"""A folder's tokenizer, read by transformers, or refused where it would read no words."""

from __future__ import annotations

from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from counterpose_core.errors import ModelFormatRefused
from counterpose_core.failure import in_a_line

_TRIAL = "a photo"


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer that a folder holds; code of the folder is never run.

    Without its vocabulary, transformers makes one of special tokens alone, and every word is unknown to it.

    Raises:
        ModelFormatRefused: transformers cannot read it, it takes no plain text, or it has no words.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        tokenizer(_TRIAL)
    # Whatever the libraries do with a file that they do not expect: some of tokenizers' errors have no class.
    except Exception as error:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no tokenizer that transformers reads as one of text: "
            f"{in_a_line(error)}; add the files of its own, such as tokenizer.json"
        ) from error
    special = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
    if not any(word not in special and any(map(str.isalnum, word)) for word in tokenizer.get_vocab()):
        raise ModelFormatRefused(
            f"the tokenizer in {folder.name!r}, a {type(tokenizer).__name__}, has no words; add the file of "
            "its vocabulary, such as tokenizer.json"
        )
    return tokenizer
