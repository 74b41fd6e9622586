"""Shortens a caption that is too long for the editor to whole sentences, or else to whole phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from counterpose_core.errors import PromptTooLong

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# A comma before a digit is part of a number.
_PHRASE_END = re.compile(r"\s*[,;:](?!\d)\s*|\s+(?:and|with|while|which)\s+", re.IGNORECASE)


def shortened(text: str, fits: Callable[[str], bool], *, complete: bool) -> str:
    """Return ``text``, or its longest beginning of whole sentences, else whole phrases, that fits.

    ``complete`` says that the captioner finished the text; otherwise its last sentence is a fragment and is
    dropped.

    Raises:
        PromptTooLong: not even the first phrase fits.
    """
    if complete and fits(text):
        return text
    # Whole sentences come first, even where a phrase would be longer: half a sentence reads like an edit.
    endings = [*_beginnings(text, _SENTENCE_END), *_beginnings(text, _PHRASE_END)]
    for beginning in endings:
        if fits(beginning):
            return beginning
    if fits(text):
        return text
    raise PromptTooLong(f"no whole phrase of the caption {text!r} fits the editor's text encoder; shorten it")


def _beginnings(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Yield proper beginnings of ``text`` that stop before a match of ``ends``, longest first."""
    for match in reversed(list(ends.finditer(text))):
        if beginning := text[: match.start()].strip():
            yield beginning
