"""A model's vocabulary: prompts and texts as token ids, with what would not fit or be read refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
from jinja2.exceptions import TemplateError
from transformers import AutoConfig, PreTrainedTokenizerBase

from counterpose_core.errors import InvalidRequest, ModelFormatRefused, PromptTooLong
from counterpose_core.failure import in_a_line
from counterpose_services.models.tokenizers import load_tokenizer
from counterpose_services.perturber.language_model import Messages


class Vocabulary:
    """Reads for a model that takes ``longest`` tokens, ``room`` of them for its answer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, longest: int, room: int) -> None:
        self._tokenizer, self._longest, self._room = tokenizer, longest, room
        self.end = int(tokenizer.eos_token_id)
        self.pad = self.end if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)

    @classmethod
    def load(cls, folder: Path, *, room: int) -> Vocabulary:
        """Load the tokenizer of a model's folder.

        Raises:
            ModelFormatRefused: transformers cannot read it or the configuration, or a text has no end in it.
        """
        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config()
            longest = int(config.max_position_embeddings)
        # Whatever the library does with a value that it does not expect.
        except Exception as error:
            raise ModelFormatRefused(
                f"the config.json in {folder.name!r} is none of a language model of transformers: "
                f"{in_a_line(error)}"
            ) from error
        tokenizer = load_tokenizer(folder)
        if tokenizer.eos_token_id is None:
            raise ModelFormatRefused(
                f"the tokenizer in {folder.name!r} has no token for the end of a text; name its 'eos_token' "
                "in tokenizer_config.json"
            )
        return cls(tokenizer, longest=longest, room=room)

    def require_chat_template(self, name: str) -> None:
        """Raise ModelFormatRefused unless the model ``name`` was trained to chat."""
        if self._tokenizer.chat_template is None:
            raise ModelFormatRefused(
                f"{name!r} has no chat template, which the prompt 'chat' needs; take a model that was "
                "trained to follow instructions, or an adapter with the prompt 'instruction'"
            )

    def require_plain(self, caption: str) -> None:
        """Raise InvalidRequest if a caption holds a special token.

        Tokenizers find special tokens in plain text; one in a caption would end the prompt.
        """
        if not set(self._tokenizer.all_special_ids).isdisjoint(self._ids(caption)):
            raise InvalidRequest(
                f"the caption {caption!r} contains a special token of the tokenizer; remove it"
            )

    def prompt(self, asked: str | Messages, caption: str) -> list[int]:
        """Return the ids of a prompt about ``caption``.

        Raises:
            InvalidRequest: the caption has a word outside the vocabulary, or a special token.
            PromptTooLong: the prompt leaves no room for an answer.
        """
        ids = self._whole(asked)
        # A word outside the vocabulary would be lost: the model would edit another caption.
        if self._tokenizer.unk_token_id in ids:
            raise InvalidRequest(f"the perturber's vocabulary lacks a word of {caption!r}; use other words")
        self.require_plain(caption)
        if len(ids) + self._room > self._longest:
            raise PromptTooLong(
                f"the prompt for {caption!r} has {len(ids)} tokens and leaves no room for an answer; "
                "shorten the caption"
            )
        return ids

    def text(self, text: str) -> list[int]:
        """Return the ids of a text to be weighed, after the start token.

        Raises:
            InvalidRequest: the text has a word outside the vocabulary.
            PromptTooLong: it has more tokens than the model reads.
        """
        ids = self._ids(text)
        if not ids or self._tokenizer.unk_token_id in ids:
            raise InvalidRequest(f"the language model's vocabulary lacks a word of {text!r}; use other words")
        start = self._tokenizer.bos_token_id
        ids = [self.end if start is None else int(start), *ids]
        if len(ids) > self._longest:
            raise PromptTooLong(
                f"{text!r} has {len(ids) - 1} tokens, more than the language model reads; shorten it"
            )
        return ids

    def read(self, ids: Sequence[int]) -> str:
        """Return the text of an answer."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def knows(self, ids: Sequence[int]) -> bool:
        """Return whether an answer has no token for an unknown word."""
        return self._tokenizer.unk_token_id not in ids

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _whole(self, asked: str | Messages) -> list[int]:
        if isinstance(asked, str):
            return list[int](self._tokenizer(asked)["input_ids"])
        try:
            filled = self._tokenizer.apply_chat_template(
                list(asked), add_generation_prompt=True, return_dict=True
            )
        except TemplateError as error:
            raise ModelFormatRefused(
                f"the chat template does not take a question with examples ({error}); take another model"
            ) from error
        return list[int](filled["input_ids"])
