"""Images that searches left out because CLIP cannot read them: stored, read back and reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from counterpose_core.contract.shift_benchmark_summary import (
    ImageSourceSummary,
    UnsearchedImage,
    UnsearchedImages,
)
from counterpose_core.contract.shift_benchmarks import ImageSourceOrReal, ShiftBenchmarkConfig
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, UnknownDataset
from counterpose_core.types import BlobRef
from counterpose_gateway.methods.shift_benchmark.columns import Usage
from counterpose_gateway.reports.text import NAMED, truncate_list
from counterpose_gateway.runs.stores import IndexStore


def store_unreadable(unreadable: Mapping[BlobRef, str], store: IndexStore) -> BlobRef | None:
    """Store which images were left out and why, and return the list's reference; None if all were read."""
    # Equal lists are one blob, so all searches of a folder share it.
    return store.put(json.dumps(unreadable, sort_keys=True).encode()) if unreadable else None


@dataclass(frozen=True)
class UnreadableImages:
    """Reads lists by reference, and the file names of a dataset's images by the dataset's name."""

    read: Callable[[BlobRef], bytes]
    file_names: Callable[[str], Mapping[BlobRef, str]]

    def left_out(self, lists: Iterable[BlobRef], config: ShiftBenchmarkConfig) -> UnsearchedImages | None:
        """The images that a benchmark's searches left out, sorted by name; None if none were left out.

        A missing list also gives None; `unreadable_notes` reports it.

        Raises:
            StorageError: the store cannot be read now.
        """
        try:
            reasons: dict[BlobRef, str] = {}
            for ref in sorted(lists):
                reasons |= json.loads(self.read(ref))
        except (ArtifactMissing, ArtifactCorrupt):
            return None
        if not reasons or config.retrieval is None:
            return None
        names = self._names(config.request.retrieval)
        images = [
            UnsearchedImage(image=image, filename=names.get(image), reason=reason)
            for image, reason in reasons.items()
        ]
        return UnsearchedImages(
            count=len(images),
            images=config.retrieval.count,
            reasons=dict(sorted(Counter(reasons.values()).items())),
            first=sorted(images, key=lambda entry: (entry.filename or "", entry.image))[:NAMED],
        )

    def _names(self, dataset: str | None) -> Mapping[BlobRef, str]:
        try:
            return {} if dataset is None else self.file_names(dataset)
        except UnknownDataset:
            return {}


def unreadable_notes(
    config: ShiftBenchmarkConfig,
    usage: Mapping[ImageSourceOrReal, Usage],
    image_sources: Mapping[str, ImageSourceSummary],
) -> list[str]:
    """Name the images that each image source's searches left out, or say that their list cannot be read."""
    notes: list[str] = []
    for name, image_source in image_sources.items():
        unsearched, folder = image_source.unsearched, repr(config.request.retrieval)
        if unsearched is not None:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in unsearched.reasons.items())
            names = [left.filename or left.image[:12] for left in unsearched.first]
            notes.append(
                f"{unsearched.count} of {unsearched.images} images of {folder} were not searched because "
                f"they could not be read ({reasons}): {truncate_list(names, unsearched.count)}"
            )
        elif any(used.unsearched for kind, used in usage.items() if kind == name):
            notes.append(f"some images of {folder} were not searched, but the list of them cannot be read")
    return notes
