"""``make advisories``: the pins of the locks that an advisory is about, each with the version that mends it.

python -m locks.advisories ADVISORIES LOCK ...

ADVISORIES is a file or a folder in OSV's JSON (ossf.github.io/osv-schema).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import InvalidVersion, Version

from locks.pins import Pins, read_pins

Advisory = dict[str, Any]
ECOSYSTEM, UNMENDED = "PyPI", "no fixed version is named"


def advisories_of(source: Path) -> Iterator[Advisory]:
    """Yield the advisories of a file, one or a list, or of all files ``*.json`` of a folder.

    Raises:
        SystemExit: there is none, or one is not read.
    """
    files = sorted(source.rglob("*.json")) if source.is_dir() else [source]
    if not files:
        raise SystemExit(f"{source} has no file *.json; unpack an export of OSV there")
    for file in files:
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            for each in told if isinstance(told, list) else [told]:
                yield each | {"id": each["id"], "affected": each.get("affected", [])}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SystemExit(f"{file} is no advisory in OSV's JSON: {error!r}") from error


def hits(pins: Pins, advisories: Iterator[Advisory]) -> Iterator[str]:
    """Yield a sentence for each pin that an advisory, not withdrawn, is about."""
    for advisory in advisories:
        for affected in () if advisory.get("withdrawn") else advisory["affected"]:
            package = affected.get("package", {})
            name = canonicalize_name(str(package.get("name", "")))
            if package.get("ecosystem") == ECOSYSTEM and name in pins:
                try:
                    told = mended(Version(pins[name][0]), affected)
                except (InvalidVersion, KeyError, TypeError, AttributeError) as error:
                    raise SystemExit(f"{advisory['id']} cannot be judged: {error!r}") from error
                if told is not None:
                    yield f"{name}=={pins[name][0]}: {advisory['id']}, {told}"


def mended(version: Version, affected: Advisory) -> str | None:
    """Return what mends a version, in words; None if it is not affected."""
    # Commits of Git say nothing about a version.
    ranges = [each["events"] for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM"]
    listed = affected.get("versions", ())
    if not ranges and not listed:
        return "which names no version; read it"
    for events in ranges:
        if (told := _within(version, events)) is not None:
            return told
    return UNMENDED if canonicalize_version(version) in map(canonicalize_version, listed) else None


def _within(version: Version, events: Sequence[dict[str, str]]) -> str | None:
    """Walk the events in the order of their versions, as OSV's schema evaluates them."""
    order = {"introduced": 0, "fixed": 1, "last_affected": 2}
    pairs = [(kind, told) for each in events for kind, told in each.items() if kind in order]
    is_affected = False
    for kind, told in sorted(pairs, key=lambda pair: (_version(pair[1]), order[pair[0]])):
        at = _version(told)
        if kind == "introduced":
            is_affected |= at <= version
        elif is_affected and (at > version or (kind == "last_affected" and at == version)):
            return f"fixed in {told}" if kind == "fixed" else f"last affected is {told}"
        else:
            is_affected &= at > version
    return UNMENDED if is_affected else None


def _version(told: str) -> Version:
    # OSV's own word for before all versions.
    return Version("0.dev0" if told == "0" else told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each hit; return 1 if there is one, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("advisories", type=Path)
    parser.add_argument("locks", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    known = list(advisories_of(given.advisories))
    found = [f"{lock.name}: {hit}" for lock in given.locks for hit in hits(read_pins(lock), iter(known))]
    sys.stdout.write("".join(f"{each}\n" for each in found))
    sys.stdout.write(f"{len(known)} advisories, {len(found)} hits\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
