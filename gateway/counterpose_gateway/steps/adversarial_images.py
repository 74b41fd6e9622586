"""Which images an adversarial dataset keeps, and why it drops the others: decided by what is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.adversarial_dataset.selection import choose_failures
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialDatasetCreate,
    AdversarialItem,
    AdversarialResult,
)
from counterpose_gateway.steps.failed_samples import (
    DUPLICATE,
    NOT_SHOWN,
    UNANSWERED,
    LabelThreshold,
    label_threshold,
    shows_label,
)

KEPT = "kept"
NOT_FOOLED = "not-fooled"


@dataclass
class Selection:
    """The images that are kept, in planned order, and what became of every sample."""

    kept: list[AdversarialItem] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    """By item id: `KEPT`, or the first filter that dropped it."""

    @property
    def dropped(self) -> dict[str, int]:
        """The samples that are not kept, by the filter that dropped them."""
        counts = Counter(self.verdicts.values())
        del counts[KEPT]
        # By count and then by name: equal figures of two runs are then equal texts.
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def thresholds_of(
    config: AdversarialDatasetConfig, baseline: Iterable[AdversarialItem]
) -> dict[str, LabelThreshold]:
    """Return below which similarity an image does not show its label, by label."""
    by_label: dict[str, list[AdversarialItem]] = {label: [] for label in config.labels}
    for item in baseline:
        by_label.setdefault(item.label, []).append(item)
    return {label: label_threshold(items) for label, items in by_label.items()}


def fools(result: AdversarialResult, request: AdversarialDatasetCreate) -> bool:
    """Return whether an image fools as many classifiers as the request asks for."""
    failed = [result.failed.get(spec, False) for spec in request.classifiers]
    return any(failed) if request.fools == "any" else all(failed)


def select_images(
    config: AdversarialDatasetConfig,
    samples: Sequence[AdversarialItem],
    thresholds: Mapping[str, LabelThreshold],
) -> Selection:
    """Decide about every sample, in planned order: an image counts once however often it was drawn."""
    selection, seen, fooling = Selection(), set[str](), list[AdversarialItem]()
    for item in samples:
        found = LabelThreshold(None, 0)
        verdict = _verdict(item, config.request, seen, thresholds.get(item.label, found).threshold)
        selection.verdicts[item.id] = verdict
        if verdict == KEPT:
            fooling.append(item)
        if item.result is not None:
            seen.add(item.result.image)
    choices = choose_failures(
        [_features(item) for item in fooling],
        [None if item.instruction is None else item.instruction.caption for item in fooling],
        most_kept=config.request.most_kept,
        near_duplicate=config.request.near_duplicates,
    )
    for item, choice in zip(fooling, choices, strict=True):
        selection.verdicts[item.id] = choice
        if choice == KEPT:
            selection.kept.append(item)
    return selection


def _verdict(
    item: AdversarialItem, request: AdversarialDatasetCreate, seen: set[str], shown_from: float | None
) -> str:
    result = item.result
    if item.state != "done" or result is None:
        return item.reason or item.code or item.state
    if result.image in seen:
        return DUPLICATE
    if not result.failed:
        return UNANSWERED
    if not fools(result, request):
        return NOT_FOOLED
    return KEPT if shows_label(item, shown_from) else NOT_SHOWN


def _features(item: AdversarialItem) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
    if item.result is None or item.result.features is None:
        return None
    return np.asarray(item.result.features.numbers(), dtype=np.float32)
