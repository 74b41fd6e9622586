"""``python clients/blocking_half.py``: write the SDK's blocking half, ``_sync``, from ``_async``.

Token by token: a name loses its ``Async`` or ``async_``, ``await`` and ``async`` go, and `NAMES` says what
else differs. f-strings stay as they are.
What is not such a matter of words is written by hand for both, outside these folders.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "clients" / "counterpose" / "_async"
TARGETS = ROOT / "clients" / "counterpose" / "_sync"

NAMES = {
    "_async": "_sync",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_sse": "iter_sse",
    "anext": "next",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "asyncio": "time",
}
PHRASES = {" for asyncio programs": "", "awaitable call": "blocking call", "await ": ""}
"""What docstrings say otherwise."""
RULES = ("--fix", "--unsafe-fixes", "--exit-zero", "--select=I,C416,SIM117,UP028")
"""Ruff mends what is left: the order of imports, and loops and ``with`` that need not be nested."""
FIRST_PARTY = 'lint.isort.known-first-party = ["counterpose"]'
"""Said here: Ruff would look for modules that are not written yet."""


def blocking_name(name: str) -> str:
    """Return what a name of the asyncio half is called in the blocking half."""
    return NAMES.get(name) or re.sub(r"^(_?)(?:Async(?=[A-Z])|async_)", r"\1", name)


def blocking_text(text: str) -> str:
    """Return what a string or a comment of the asyncio half says in the blocking half."""
    for phrase, other in PHRASES.items():
        text = text.replace(phrase, other)
    return re.sub(r"[A-Za-z_]+", lambda word: blocking_name(word[0]) if "sync" in word[0] else word[0], text)


def blocking(source: str) -> str:
    """Return the blocking half of a module, as the tokenizer leaves it."""
    lines = source.splitlines(keepends=True)
    for (row, start), (end_row, end), text in reversed(list(_edits(source))):
        lines[row - 1 : end_row] = [lines[row - 1][:start] + text + lines[end_row - 1][end:]]
    return "".join(lines)


def _edits(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for at, token in enumerate(tokens):
        if token.string in ("async", "await"):
            # With the space behind it.
            yield token.start, tokens[at + 1].start, ""
        elif token.type == tokenize.NAME:
            yield token.start, token.end, blocking_name(token.string)
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string[0] not in "fF"
        ):
            yield token.start, token.end, blocking_text(token.string)


def halves() -> dict[Path, str]:
    """Return the text of each module of the blocking half."""
    texts = {}
    for path in sorted(SOURCES.glob("*.py")):
        target = TARGETS / path.name
        origin, script = path.relative_to(ROOT), Path(__file__).resolve().relative_to(ROOT)
        head = f"# Generated from {origin} by {script}; do not edit.\n"
        text = head + blocking(path.read_text(encoding="utf-8"))
        texts[target] = _ruff("format", text=_ruff("check", *RULES, text=text, path=target), path=target)
    return texts


def _ruff(*arguments: str, text: str, path: Path) -> str:
    named = ["--quiet", "--config", FIRST_PARTY, "--stdin-filename", str(path), "-"]
    command = [sys.executable, "-m", "ruff", *arguments, *named]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


if __name__ == "__main__":
    TARGETS.mkdir(exist_ok=True)
    written = halves()
    for stale in set(TARGETS.glob("*.py")) - set(written):
        stale.unlink()
    for place, module in written.items():
        place.write_text(module, encoding="utf-8")
