"""Lines of the log: what others write moves no cursor of whoever reads it, and forges no line."""

from __future__ import annotations

import logging
import sys

import pytest

from counterpose_gateway.main import LogLines

HOSTILE = {
    "a title and a cleared screen": ("\x1b]0;owned\x07\x1b[2J", r"\x1b]0;owned\x07\x1b[2J"),
    "another line": ("a.tar\n2026-11-30 INFO all is well", r"a.tar\n2026-11-30 INFO all is well"),
    "a line over this one": ("a.tar\rINFO all is well", r"a.tar\rINFO all is well"),
    "a sequence of one letter": ("\x9b2J", r"\x9b2J"),
    "letters from right to left": ("\u202ernt.exe", r"\u202ernt.exe"),
    "a line of Unicode's": ("a\u2028b\x85c", r"a\u2028b\x85c"),
    "half a letter": ("\udcff.png", r"\udcff.png"),
}


@pytest.mark.fault("T14")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_others_write_is_escaped_in_messages_and_tracebacks(name: str) -> None:
    text, shown = HOSTILE[name]
    lines = LogLines("%(levelname)s %(message)s")
    record = logging.LogRecord("it", logging.WARNING, "it.py", 1, "import from %s", (text,), None)
    assert lines.format(record) == f"WARNING import from {shown}"
    try:
        raise ValueError(text)
    except ValueError:
        record = logging.LogRecord("it", logging.ERROR, "it.py", 1, "it stopped", (), sys.exc_info())
    first, *traceback = lines.format(record).split("\n")
    assert (first, traceback[0]) == ("ERROR it stopped", "  Traceback (most recent call last):")
    # A message of two lines has two, as Python shows it; neither looks like one of the log.
    assert traceback[-1] in {f"  ValueError: {shown}", "  " + shown.rpartition(r"\n")[2]}
    assert all(line.startswith("  ") and line.isprintable() for line in traceback)


def test_letters_of_any_script_are_shown_as_they_are() -> None:
    record = logging.LogRecord("it", logging.INFO, "it.py", 1, "%s", ("größer 雪 снег 'a b'",), None)
    assert LogLines("%(message)s").format(record) == "größer 雪 снег 'a b'"
