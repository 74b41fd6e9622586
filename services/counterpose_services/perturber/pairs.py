"""Caption pairs on disk, one JSON object per line: the collector writes them, the fine-tuning reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from counterpose_core.errors import InvalidRequest
from counterpose_core.types import PerturbationType


class CaptionPair(BaseModel, extra="forbid", frozen=True):
    """A caption and one edit of it, with the name of its instruction."""

    instruction: str = Field(min_length=1)
    perturbation_type: PerturbationType
    caption: str = Field(min_length=1)
    edited_caption: str = Field(min_length=1)


def read_pairs(file: Path) -> list[CaptionPair]:
    """Read a file of pairs; an incomplete last line, left by a kill, is ignored.

    Raises:
        InvalidRequest: a complete line is not a caption pair.
    """
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        lines.pop()
    pairs = []
    for number, line in enumerate(lines, start=1):
        try:
            pairs.append(CaptionPair.model_validate_json(line))
        except ValidationError as error:
            raise InvalidRequest(
                f"line {number} of {file.name!r} is not a caption pair: {line[:80]!r}"
            ) from error
    return pairs


def rewrite_whole_lines(file: Path) -> list[CaptionPair]:
    """Read the pairs of a file and remove an incomplete last line, so that pairs can be appended."""
    if not file.exists():
        return []
    pairs = read_pairs(file)
    data = file.read_bytes()
    kept = data[: data.rfind(b"\n") + 1]
    if kept != data:
        file.write_bytes(kept)
    return pairs


def append_pairs(file: Path, pairs: Iterable[CaptionPair]) -> None:
    """Append pairs and flush them to the file system."""
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(pair.model_dump_json() + "\n" for pair in pairs)
        stream.flush()
