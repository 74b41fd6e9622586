"""The segmenter: a segmentation network of transformers outlines the objects of images."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForSemanticSegmentation,
    AutoModelForUniversalSegmentation,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.scorer import Segment, SegmentItem, SegmentRequest, SegmentResponse
from counterpose_core.errors import BadBackendOutput, InvalidRequest, ModelFormatRefused
from counterpose_core.failure import in_a_line
from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from counterpose_core.images.masks import BLACK, INSIDE, WHITE
from counterpose_core.suite import SegmenterSuite
from counterpose_core.text.imagenet_hierarchy import class_key, hierarchy
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.weights import weights_folder

ClassMap = npt.NDArray[np.int64]
"""Shape (H, W): the row of the network's class that each pixel belongs to."""

BACKGROUND = "background"
KIND = "object-mask"
_TRIAL = np.full((48, 64, 3), 128, np.uint8)
_NO_MAP: ClassMap = np.zeros((0, 0), np.int64)


@dataclass(frozen=True)
class _Sought:
    """An item, the network's rows of its class, and what is known of it already, or else its pixels."""

    item: SegmentItem
    rows: set[int]
    key: str
    known: Segment | None = None
    pixels: Pixels | None = None


class SegmenterEngine:
    """Outlines objects; a mask is computed once for an image and a class, and stored.

    Raises:
        ModelFormatRefused: transformers has no segmentation network of this configuration, the weights do not
            fit it, or its processor crops images, so that masks would not lie on them.
    """

    def __init__(self, folder: Path, suite: SegmenterSuite, store: BlobStore, *, device: str = "cpu") -> None:
        self._store, self._batch = store, suite.batch
        self._model, self._processor = _loaded(folder)
        self._model.to(torch.device(device))
        self.identity = ModelIdentity(id=suite.model, revision=folder_revision(folder))
        self._classes = Classes(self._model.config.id2label, suite.labels)
        self._try_out()

    @classmethod
    def load(
        cls, suite: SegmenterSuite, root: Path, store: BlobStore, *, device: str = "cpu"
    ) -> SegmenterEngine:
        """Load the suite's segmenter from its folder under ``root``; raises UnknownModel if there is none."""
        return cls(weights_folder(root, suite.model, suite.published), suite, store, device=device)

    def segment(self, request: SegmentRequest) -> SegmentResponse:
        """Outline the object of each image; one that the network cannot tell apart has no mask, and why."""
        started = time.monotonic()
        outcomes = settle(
            request.items, prepare=self._prepare, run=self._run, finish=self._finish, batch=self._batch
        )
        return SegmentResponse(
            outcomes=outcomes, model=self.identity, cost=Cost(seconds=time.monotonic() - started)
        )

    def _prepare(self, item: SegmentItem) -> _Sought:
        rows = self._classes.rows_of(item.label)
        if not rows:
            # It outlines nothing of it, which is what a mask that is known is held against.
            overlap = None if item.exact is None else 0.0
            why = self._classes.unknown(item.label)
            return _Sought(item, rows, "", known=Segment(mask=None, share=0.0, why=why, overlap=overlap))
        key = cache_key(item=item.image, rows=sorted(rows), model=self.identity.revision)
        if (ref := self._store.recall(KIND, key, of=item.image)) is not None:
            return _Sought(item, rows, key, known=self._told(item, self._stored_mask(ref), ref))
        return _Sought(item, rows, key, pixels=decode_image(self._store.get(item.image)))

    def _run(self, sought: list[_Sought]) -> list[ClassMap]:
        pixels = [one.pixels for one in sought if one.pixels is not None]
        maps = iter(self._class_maps(pixels) if pixels else ())
        return [_NO_MAP if one.pixels is None else next(maps) for one in sought]

    def _finish(self, sought: _Sought, class_map: ClassMap) -> Segment:
        if sought.known is not None:
            return sought.known
        inside = np.isin(class_map, list(sought.rows))
        if inside.all() or not inside.any():
            where = "everywhere" if inside.all() else "nowhere"
            return self._told(sought.item, inside, None, f"the segmenter sees it {where}")
        mask = np.repeat(np.where(inside, WHITE, BLACK).astype(np.uint8)[:, :, None], 3, axis=2)
        ref = self._store.put(encode_png(mask))
        self._store.remember(KIND, sought.key, ref, of=sought.item.image)
        return self._told(sought.item, inside, ref)

    def _stored_mask(self, ref: str) -> npt.NDArray[np.bool_]:
        return decode_image(self._store.get(ref))[:, :, 0] >= INSIDE

    def _told(
        self, item: SegmentItem, inside: npt.NDArray[np.bool_], ref: str | None, why: str = ""
    ) -> Segment:
        exact = None if item.exact is None else self._stored_mask(item.exact)
        if exact is not None and exact.shape != inside.shape:
            raise InvalidRequest(
                f"the exact mask has {exact.shape[1]} x {exact.shape[0]} pixels, but its image "
                f"{inside.shape[1]} x {inside.shape[0]}; give the image's own mask"
            )
        overlap = None if exact is None else float((inside & exact).sum() / max(1, (inside | exact).sum()))
        return Segment(mask=ref, share=float(inside.mean()), why=why, overlap=overlap)

    @torch.inference_mode()
    def _class_maps(self, images: Sequence[Pixels]) -> list[ClassMap]:
        inputs = [self._processor(images=image, return_tensors="pt") for image in images]
        # A processor that keeps an image's proportions gives shapes of their own.
        alike = len({tuple(each["pixel_values"].shape) for each in inputs}) == 1
        maps: list[ClassMap] = []
        for part in [slice(0, len(images))] if alike else [slice(row, row + 1) for row in range(len(images))]:
            names = inputs[part][0].keys()
            joined = {name: torch.cat([each[name] for each in inputs[part]]) for name in names}
            answer = self._model(**{name: value.to(self._model.device) for name, value in joined.items()})
            sizes = [image.shape[:2] for image in images[part]]
            found = self._processor.post_process_semantic_segmentation(answer, target_sizes=sizes)
            maps += [one.cpu().numpy().astype(np.int64) for one in found]
        if any(one.shape != image.shape[:2] for one, image in zip(maps, images, strict=True)):
            raise BadBackendOutput(f"{self.identity.id!r} returned maps of another size than their images")
        return maps

    def _try_out(self) -> None:
        try:
            self._class_maps([_TRIAL])
        except torch.OutOfMemoryError:
            raise
        # Whatever a network does with pixels that are not its own.
        except Exception as error:
            raise ModelFormatRefused(
                f"{self.identity.id!r} fails on a grey image as its processor prepares it: {in_a_line(error)}"
            ) from error


class Classes:
    """Which rows of a network are the object of a label.

    Args:
        id2label: the network's own names by row.
        labels: the network's name for a label, by label, where a suite says it.
    """

    def __init__(self, id2label: Mapping[int, str], labels: Mapping[str, str]) -> None:
        self._labels = {label.casefold(): name for label, name in labels.items()}
        self._rows: dict[str, set[int]] = {}
        for row, names in id2label.items():
            for name in (names, *names.replace(";", ",").split(",")):
                self._rows.setdefault(name.strip().casefold(), set()).add(int(row))
        others = {int(row) for row, name in id2label.items() if name.casefold() != BACKGROUND}
        self._object = others if len(id2label) == 2 and len(others) == 1 else set[int]()

    def rows_of(self, label: str) -> set[int]:
        """Return the rows of a label's object; empty where the network has no class for it."""
        if self._object:
            return self._object
        named = self._labels.get(label.casefold(), label)
        if own := self._rows.get(named.casefold()):
            return own
        words, above = hierarchy(), class_key(named)
        while above:
            if (name := words.first.get(above)) is not None and (own := self._rows.get(name.casefold())):
                return own
            above = words.parents.get(above, "")
        return set()

    def unknown(self, label: str) -> str:
        """Say that the network has no class for a label."""
        return f"the segmenter has no class for {label!r}{did_you_mean(label, list(self._rows))}"


def _loaded(folder: Path) -> tuple[Any, Any]:
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        processor = AutoImageProcessor.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    # Whatever the library does with a value that it does not expect.
    except Exception as error:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no configuration and image processor that transformers reads: "
            f"{in_a_line(error)}; add its own config.json and preprocessor_config.json"
        ) from error
    if not hasattr(processor, "post_process_semantic_segmentation"):
        raise ModelFormatRefused(
            f"the image processor {type(processor).__name__!r} in {folder.name!r} makes no class maps; take "
            "a network whose processor has post_process_semantic_segmentation"
        )
    if getattr(processor, "do_center_crop", False):
        raise ModelFormatRefused(
            f"the image processor in {folder.name!r} crops images, so that masks would not lie on them; set "
            "'do_center_crop' to false in its preprocessor_config.json"
        )
    semantic = config.model_type in MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES
    kind = AutoModelForSemanticSegmentation if semantic else AutoModelForUniversalSegmentation
    model = load_fitting(kind, folder, dtype=torch.float32, trust_remote_code=False)
    return model.eval(), processor
