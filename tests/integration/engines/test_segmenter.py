"""Segmentation networks as transformers saves them: masks lie on their images, or the folder is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BeitConfig,
    BeitForSemanticSegmentation,
    BeitImageProcessor,
    DPTConfig,
    DPTForSemanticSegmentation,
    DPTImageProcessor,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    Mask2FormerImageProcessor,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SegformerImageProcessor,
    SwinConfig,
)

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.scorer import Segment, SegmentItem, SegmentRequest
from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.suite import SegmenterSuite
from counterpose_services.scorer.segmenter import Classes, SegmenterEngine

NAMES = {0: "wall", 1: "cat", 2: "dog; hound"}


def segformer(names: dict[int, str] = NAMES, **changes: Any) -> SegformerForSemanticSegmentation:
    torch.manual_seed(0)
    return SegformerForSemanticSegmentation(
        SegformerConfig(
            depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2],
            decoder_hidden_size=16, id2label=names, label2id={name: row for row, name in names.items()},
            **changes,
        )
    )  # fmt: skip


def saved(folder: Path, model: Any, processor: Any) -> Path:
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def dpt(folder: Path) -> Path:
    config = DPTConfig(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=32,
        patch_size=8, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8, id2label=NAMES,
    )  # fmt: skip
    processor = DPTImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, DPTForSemanticSegmentation(config), processor)


def beit(folder: Path) -> Path:
    config = BeitConfig(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=32,
        patch_size=8, out_indices=[1, 2, 3, 4], pool_scales=[1, 2], use_auxiliary_head=False,
        id2label=NAMES,
    )  # fmt: skip
    processor = BeitImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    return saved(folder, BeitForSemanticSegmentation(config), processor)


def mask2former(folder: Path) -> Path:
    backbone = SwinConfig(
        image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = Mask2FormerConfig(
        backbone_config=backbone, hidden_dim=32, mask_feature_size=32, feature_size=32, num_queries=5,
        encoder_layers=1, decoder_layers=2, num_attention_heads=2, encoder_feedforward_dim=16,
        dim_feedforward=16, id2label=NAMES,
    )  # fmt: skip
    processor = Mask2FormerImageProcessor(size={"shortest_edge": 64, "longest_edge": 128}, ignore_index=255)
    return saved(folder, Mask2FormerForUniversalSegmentation(config), processor)


def plain(folder: Path) -> Path:
    return saved(folder, segformer(), SegformerImageProcessor(size={"height": 64, "width": 64}))


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore((tmp_path / "store").as_uri())


def engine(root: Path, store: BlobStore, model: str = "net", **more: Any) -> SegmenterEngine:
    return SegmenterEngine.load(SegmenterSuite(model=model, **more), root, store)


def put(store: BlobStore, height: int, width: int, seed: int = 0) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return store.put(encode_png(pixels))


def segments(engine: SegmenterEngine, *items: SegmentItem) -> list[Segment]:
    return [each.unwrap() for each in engine.segment(SegmentRequest(items=list(items))).outcomes]


@pytest.mark.parametrize("make", [plain, dpt, beit, mask2former])
def test_masks_have_the_size_of_their_images_and_are_those_of_the_library(
    tmp_path: Path, store: BlobStore, make: Callable[[Path], Path]
) -> None:
    make(tmp_path / "net")
    own = engine(tmp_path, store)
    images = [put(store, 48, 64, 1), put(store, 70, 40, 2)]
    shares = []
    for label in ("wall", "cat", "hound"):
        for image, found in zip(
            images, segments(own, *(SegmentItem(image=one, label=label) for one in images)), strict=True
        ):
            shares.append(found.share)
            assert (found.mask is None) == (found.share in (0.0, 1.0))
            assert (found.why != "") == (found.mask is None)
            if found.mask is not None:
                mask = decode_image(store.get(found.mask))
                assert mask.shape == decode_image(store.get(image)).shape
                assert set(np.unique(mask)) == {0, 255}
                assert float((mask[:, :, 0] == 255).mean()) == found.share
    # Each pixel is of one class.
    assert [sum(shares[at::2]) for at in (0, 1)] == pytest.approx([1.0, 1.0])


def test_a_mask_is_computed_once_and_held_against_one_that_is_known(
    tmp_path: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "net"
    saved(folder, segformer({0: "background", 1: "thing"}), SegformerImageProcessor())
    own = engine(tmp_path, store)
    image = put(store, 40, 40)
    half = np.zeros((40, 40), np.int64)
    half[:, :20] = 1
    monkeypatch.setattr(own, "_class_maps", lambda images: [half] * len(images))
    exact = np.zeros((40, 40, 3), np.uint8)
    exact[:20] = 255
    known = store.put(encode_png(exact))
    # Of two classes the one that is no background is the object, whatever the label.
    (first,) = segments(own, SegmentItem(image=image, label="cat", exact=known))
    assert first.share == 0.5
    assert first.overlap == pytest.approx(1 / 3)
    monkeypatch.setattr(own, "_class_maps", lambda images: pytest.fail("computed again"))
    (again,) = segments(own, SegmentItem(image=image, label="dog"))
    assert (again.mask, again.overlap) == (first.mask, None)


@pytest.mark.parametrize(("row", "where"), [(0, "nowhere"), (1, "everywhere")])
def test_an_object_seen_nowhere_or_everywhere_has_no_mask(
    tmp_path: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch, row: int, where: str
) -> None:
    plain(tmp_path / "net")
    own = engine(tmp_path, store)
    monkeypatch.setattr(own, "_class_maps", lambda images: [np.full((40, 40), row)] * len(images))
    (found,) = segments(own, SegmentItem(image=put(store, 40, 40), label="cat"))
    assert (found.mask, found.why) == (None, f"the segmenter sees it {where}")


def test_a_class_is_known_by_its_name_by_one_above_it_or_by_the_suite() -> None:
    classes = Classes(NAMES, {"bonnet": "wall"})
    rows = {name: classes.rows_of(name) for name in ("Dog", "hound", "tabby", "beagle", "bonnet", "sled")}
    assert rows == {"Dog": {2}, "hound": {2}, "tabby": {1}, "beagle": {2}, "bonnet": {0}, "sled": set()}
    assert classes.unknown("houndd").endswith("'houndd' (did you mean 'hound'?)")


def test_a_label_without_a_class_is_said_and_counts_as_no_overlap(tmp_path: Path, store: BlobStore) -> None:
    plain(tmp_path / "net")
    image = put(store, 40, 40)
    (found,) = segments(engine(tmp_path, store), SegmentItem(image=image, label="sled", exact=image))
    assert (found.mask, found.overlap) == (None, 0.0)
    assert found.why.startswith("the segmenter has no class for 'sled'")


def test_a_processor_that_crops_or_makes_no_class_maps_is_refused(tmp_path: Path, store: BlobStore) -> None:
    crops = BeitImageProcessor(
        size={"height": 32, "width": 32}, do_center_crop=True, crop_size={"height": 24, "width": 24}
    )
    saved(tmp_path / "net", segformer(), crops)
    with pytest.raises(ModelFormatRefused, match="crops images, so that masks would not lie on them"):
        engine(tmp_path, store)


def test_no_folder_and_another_network_are_refused_by_name(tmp_path: Path, store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match="net"):
        engine(tmp_path, store)
    folder = plain(tmp_path / "net")
    (folder / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ModelFormatRefused, match="cannot be read as"):
        engine(tmp_path, store)
