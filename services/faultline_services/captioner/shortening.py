"""Where a caption that is too long for the editor may end: after a whole sentence, else a whole phrase."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from faultline_core.errors import PromptTooLong

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# A comma before a digit stands inside a number.
_PHRASE_END = re.compile(r"\s*[,;:](?!\d)\s*|\s+(?:and|with|while|which)\s+", re.IGNORECASE)


def shortened(text: str, fits: Callable[[str], bool], *, complete: bool) -> str:
    """Return ``text``, or its longest beginning of whole sentences, else whole phrases, that fits.

    ``complete`` says that the writer came to an end; otherwise the last sentence is a fragment and goes.

    Raises:
        PromptTooLong: not even the first phrase fits.
    """
    if complete and fits(text):
        return text
    # Every whole sentence goes before any phrase, even a longer one: half a sentence reads as an edit.
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
