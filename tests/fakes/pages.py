"""A page as its reader sees it."""

from __future__ import annotations

import re
from html import unescape

_UNREAD = re.compile(r"<style>.*?</style>|<script>.*?</script>|<title>.*?</title>|<[^>]+>", re.DOTALL)


def text_of(html: str) -> str:
    """The words of a page, or of a part of one, as one line."""
    return " ".join(unescape(_UNREAD.sub(" ", html)).split())
