"""Reads a Dockerfile: the stages and their instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """A stage: what it starts from, and its instructions as pairs of keyword and rest."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, keyword: str) -> list[str]:
        """Return the rests of all instructions with this keyword."""
        return [rest for found, rest in self.instructions if found == keyword]

    def words(self, keyword: str) -> list[str]:
        """Return the last instruction of this keyword in its JSON form; empty if there is none."""
        found = self.all_of(keyword)
        words: list[str] = json.loads(found[-1]) if found else []
        return words

    @property
    def variables(self) -> dict[str, str]:
        """The environment that the stage adds."""
        return dict(pair.split("=", 1) for rest in self.all_of("ENV") for pair in rest.split())


def read_stages(file: Path) -> dict[str, Stage]:
    """Return the stages of a Dockerfile by their names, in order."""
    text = re.sub(r"\\\n\s*", "", file.read_text(encoding="utf-8"))
    stages: dict[str, Stage] = {}
    for line in text.splitlines():
        keyword, _, rest = line.partition(" ")
        # What stands before the first stage belongs to none.
        if not line.strip() or line.startswith("#") or (keyword != "FROM" and not stages):
            continue
        if match := re.fullmatch(r"(\S+) AS (\S+)", rest) if keyword == "FROM" else None:
            stages[match[2]] = Stage(name=match[2], base=match[1])
        else:
            stages[list(stages)[-1]].instructions.append((keyword, rest))
    return stages


def chain(stages: dict[str, Stage], name: str) -> list[Stage]:
    """Return a stage and those that it starts from, the first one first."""
    found = [stages[name]]
    while found[0].base in stages:
        found.insert(0, stages[found[0].base])
    return found
