"""A classifier under test and the bugs it was taught."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpose_miniature.training.bugs import Bug

WEIGHTS = "model.safetensors"
CLIP_WEIGHTS = "open_clip_model.safetensors"
BUG_FILES = Path(__file__).resolve().parent.parent / "bugs"


@dataclass(frozen=True)
class Contestant:
    """A classifier under test: its name in a stress test's request, its folder, and the bugs it was taught.

    ``prompts`` are those of a zero-shot classifier, which is taught nothing; others have none.
    """

    spec: str
    folder: Path
    bugs: tuple[Bug, ...]
    prompts: tuple[str, ...] = ()

    @property
    def weights(self) -> Path:
        """Its checkpoint."""
        return self.folder / (CLIP_WEIGHTS if self.prompts else WEIGHTS)

    @property
    def is_control(self) -> bool:
        """Whether it was trained for a validation, without bugs.

        The suite's own unbiased classifier and zero-shot CLIP can raise false alarms too, but they are
        not among the controls.
        """
        return self.spec.startswith("local:") and not self.bugs

    @property
    def digest(self) -> str:
        """SHA-256 of its checkpoint, and of its prompts where it has any."""
        prompts = "\n".join(self.prompts).encode()
        return hashlib.sha256(self.weights.read_bytes() + prompts).hexdigest()


def all_bugs(contestants: Iterable[Contestant]) -> Iterator[Bug]:
    """Every bug of every classifier, repeated where several have it."""
    for contestant in contestants:
        yield from contestant.bugs
