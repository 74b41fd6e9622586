"""Pictures of a folder that no search could find, as CLIP cannot read them: kept, read again and told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from faultline_core.contract.shift_benchmark_summary import (
    SourceSummary,
    UnsearchedPicture,
    UnsearchedPictures,
)
from faultline_core.contract.shift_benchmarks import PictureSource, ShiftBenchmarkConfig
from faultline_core.errors import ArtifactCorrupt, ArtifactMissing, UnknownDataset
from faultline_core.types import BlobRef
from faultline_gateway.workflows.benchmark_evidence import Spent
from faultline_gateway.workflows.found_pictures import IndexStore
from faultline_gateway.workflows.some_names import NAMED, some


def keep_unsearched(unreadable: Mapping[BlobRef, str], store: IndexStore) -> BlobRef | None:
    """Keep which pictures were left out and why, and return the list's reference; None where none were."""
    # Equal lists are one blob, however many searches meet the same folder.
    return store.put(json.dumps(unreadable, sort_keys=True).encode()) if unreadable else None


@dataclass(frozen=True)
class SearchedFolder:
    """Where lists are read from by reference, and the file names of a dataset's pictures by its name."""

    read: Callable[[BlobRef], bytes]
    file_names: Callable[[str], Mapping[BlobRef, str]]

    def unsearched(self, lists: Iterable[BlobRef], config: ShiftBenchmarkConfig) -> UnsearchedPictures | None:
        """What the searches of a benchmark left out, in the order of names; None where that was nothing.

        A list that is gone says nothing, which `unsearched_notes` tells.

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
        pictures = [
            UnsearchedPicture(image=image, filename=names.get(image), reason=reason)
            for image, reason in reasons.items()
        ]
        return UnsearchedPictures(
            count=len(pictures),
            pictures=config.retrieval.count,
            reasons=dict(sorted(Counter(reasons.values()).items())),
            first=sorted(pictures, key=lambda each: (each.filename or "", each.image))[:NAMED],
        )

    def _names(self, dataset: str | None) -> Mapping[BlobRef, str]:
        try:
            return {} if dataset is None else self.file_names(dataset)
        except UnknownDataset:
            return {}


def unsearched_notes(
    config: ShiftBenchmarkConfig,
    spent: Mapping[PictureSource, Spent],
    sources: Mapping[str, SourceSummary],
) -> list[str]:
    """Say of each source what its searches left out, or that this cannot be told any more."""
    notes: list[str] = []
    for name, source in sources.items():
        found, folder = source.unsearched, repr(config.request.retrieval)
        if found is not None:
            why = ", ".join(f"{reason}: {count}" for reason, count in found.reasons.items())
            named = [each.filename or each.image[:12] for each in found.first]
            notes.append(
                f"{found.count} of {found.pictures} pictures of {folder} were not searched, as they cannot "
                f"be read ({why}): {some(named, found.count)}"
            )
        elif any(each.unsearched for kind, each in spent.items() if kind == name):
            notes.append(f"which pictures of {folder} were not searched cannot be told: their list is gone")
    return notes
