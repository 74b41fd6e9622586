"""The region of a run's edits: refused where nothing bounds it, else told to items by the images' masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.regions import OF_MASKS
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import SegmenterSuite
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.source_table import SourceTable, TableSource

SEGMENTER = "segmenter"
"""The key of the segmenter among a run's models: there only if the region of an image needs it."""


def confined_preset(name: str, preset: EditorPreset, create: StressTestCreate) -> EditorPreset:
    """Return the preset ``name`` for edits in the request's region.

    Raises:
        InvalidRequest: its backend has no regions, or none of the changed words.
    """
    if create.region == "words":
        return preset.confined_to_words()
    if create.region is not None and not preset.capabilities.mask:
        raise InvalidRequest(
            f"the preset {name!r} is for the backend {preset.backend!r}, which lacks 'mask' and changes "
            "whole images; leave region out, or choose another preset",
            pointer="/region",
        )
    return preset


def with_segmenter(
    config: StressTestConfig, sources: SourceTable, segmenter: SegmenterSuite | None
) -> StressTestConfig:
    """Return the configuration, with the segmenter among its models if images need it for the region.

    Raises:
        InvalidRequest: images have no mask, and no segmenter may outline their objects.
    """
    region = config.request.region
    bare = np.flatnonzero(~sources.masked()) if region in OF_MASKS else np.array([], dtype=np.intp)
    if not bare.size:
        return config
    if region != "mask" and segmenter is not None:
        return config.model_copy(update={"models": {**config.models, SEGMENTER: segmenter.model}})
    own = "'mask' takes those of the dataset alone"
    why = own if region == "mask" else f"the suite {config.suite!r} has no segmenter to outline their objects"
    other, field = (
        ("leave region out", "region") if config.proof is None else ("name another dataset", "dataset")
    )
    raise InvalidRequest(
        f"{bare.size} of {len(sources)} images have no mask, one of them in the class "
        f"{sources.label(int(bare[0]))!r}, and {why}; upload masks with them, or {other}",
        pointer=f"/{field}",
    )


def told_mask(config: StressTestConfig, source: Source | TableSource) -> Mapping[str, Any] | None:
    """Return what an item of the screen is told: the mask of its image, where the run's region needs one."""
    return {"mask": source.mask} if config.request.region in OF_MASKS and source.mask else None


def is_confirming(item: LeasedItem) -> bool:
    """Return whether a later stage asks something of the item."""
    return bool((item.instruction or {}).keys() - {"mask"})
