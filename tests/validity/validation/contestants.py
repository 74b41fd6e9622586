"""A classifier under test and the bugs it was taught."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from faultline_miniature.training.bugs import Bug

WEIGHTS = "model.safetensors"
BUG_FILES = Path(__file__).resolve().parent.parent / "bugs"


@dataclass(frozen=True)
class Contestant:
    """A classifier under test: how a stress test asks for it, where it lies, what it was taught wrongly."""

    spec: str
    folder: Path
    bugs: tuple[Bug, ...]

    @property
    def weights(self) -> Path:
        """Its checkpoint."""
        return self.folder / WEIGHTS

    @property
    def is_control(self) -> bool:
        """Whether nothing was planted in it."""
        return not self.bugs

    @property
    def digest(self) -> str:
        """SHA-256 of its checkpoint."""
        return hashlib.sha256(self.weights.read_bytes()).hexdigest()


def all_bugs(contestants: Iterable[Contestant]) -> Iterator[Bug]:
    """Every bug of every classifier, repeated where several have it."""
    for contestant in contestants:
        yield from contestant.bugs
