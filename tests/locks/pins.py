"""The pins of a lock, each with the hashes of its files."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.utils import canonicalize_name

_PIN = re.compile(r"([\w.-]+)==([^\s;\\]+)(?:.*?)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})*)(?:\n|\Z)")

Pins = dict[str, tuple[str, frozenset[str]]]
"""From a package's normal name to its version and the SHA-256 of its files."""


def pins_of(text: str) -> Pins:
    """Return the pins of a lock's text, of comments and options nothing.

    Raises:
        ValueError: a line is none of these.
    """
    found: Pins = {}
    rest = re.sub(r"^(#.*|-.*|\s*)\n", "", text, flags=re.MULTILINE)
    while rest:
        match = _PIN.match(rest)
        if match is None:
            raise ValueError(f"{rest.splitlines()[0]!r} is no pin; write NAME==VERSION")
        name = canonicalize_name(match[1])
        found[name] = match[2], frozenset(re.findall(r"sha256:(\w{64})", match[3]))
        rest = rest[match.end() :]
    return found


def read_pins(lock: Path) -> Pins:
    """Return the pins of a file."""
    return pins_of(lock.read_text(encoding="utf-8"))


def written(pins: Pins) -> str:
    """Return the text of a lock as pip reads it, by name."""
    return "".join(
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sorted(hashes))]) + "\n"
        for name, (version, hashes) in sorted(pins.items())
    )
