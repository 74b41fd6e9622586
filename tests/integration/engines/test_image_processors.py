"""Every saved image processor of transformers gives its own pixels, or is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers import (
    AutoImageProcessor,
    BaseImageProcessor,
    Blip2Processor,
    BlipImageProcessor,
    CLIPImageProcessor,
    ViTImageProcessor,
)

from counterpose_core.errors import BadBackendOutput, ModelFormatRefused
from counterpose_services.models.image_processors import Preparation, load_image_processor
from fakes.tiny_models.words import tiny_tokenizer

NAMES = sorted(
    name
    for name in dir(transformers)
    # Other names of the library need libraries that are not here.
    if "ImageProcessor" in name
    and isinstance(kind := getattr(transformers, name), type)
    and issubclass(kind, BaseImageProcessor)
    and kind is not BaseImageProcessor
)
OF_CLASSIFIERS = {
    "BeitImageProcessor", "BitImageProcessor", "BlipImageProcessor", "CLIPImageProcessor",
    "ConvNextImageProcessor", "DINOv3ViTImageProcessor", "DeiTImageProcessor", "LevitImageProcessor",
    "MobileNetV1ImageProcessor", "MobileNetV2ImageProcessor", "MobileViTImageProcessor",
    "PerceiverImageProcessor", "PoolFormerImageProcessor", "PvtImageProcessor", "SegformerImageProcessor",
    "SiglipImageProcessor", "ViTImageProcessor",
}  # fmt: skip
SIDE = 64
DRAWN = np.random.default_rng(5)
WIDE, HIGH = (DRAWN.integers(0, 256, (*sides, 3), np.uint8) for sides in ((60, 90), (90, 60)))


def saved(kind: Any, folder: Path) -> bool:
    """Save a processor of ``kind`` for smaller images than its default, if the class can be made at all."""
    try:
        kind().save_pretrained(folder)
    except (AttributeError, ImportError, TypeError, ValueError):
        return False
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text("utf-8"))
    for name in ("size", "crop_size"):
        if isinstance(config.get(name), dict):
            config[name] = {side: min(int(value), SIDE) for side, value in config[name].items()}
    file.write_text(json.dumps(config), encoding="utf-8")
    return True


def by_the_library(folder: Path, pixels: Any) -> Mapping[str, Any]:
    try:
        return dict(AutoImageProcessor.from_pretrained(folder)(images=[pixels], return_tensors="pt"))
    except Exception:
        return {}  # The library itself cannot, so that a refusal is right.


def outcome(folder: Path) -> Preparation | str:
    try:
        return load_image_processor(folder)
    except ModelFormatRefused as refused:
        return refused.detail


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_processor_gives_its_own_pixels_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    if not saved(getattr(transformers, name), tmp_path):
        assert name not in OF_CLASSIFIERS
        return
    theirs = [by_the_library(tmp_path, pixels) for pixels in (WIDE, HIGH)]
    plain = all(set(one) == {"pixel_values"} and one["pixel_values"].ndim == 4 for one in theirs)
    usable = plain and theirs[0]["pixel_values"].shape == theirs[1]["pixel_values"].shape
    if isinstance(prepared := outcome(tmp_path), str):
        assert not usable
        assert name not in OF_CLASSIFIERS
        assert "image processor" in prepared
        assert "\n" not in prepared
        return
    assert plain
    for pixels, own in zip((WIDE, HIGH), theirs, strict=True):
        assert torch.equal(prepared(pixels), own["pixel_values"][0])


def test_processors_of_classifiers_are_among_those_that_are_tried() -> None:
    assert set(NAMES) >= OF_CLASSIFIERS


SHAPES: dict[str, tuple[dict[str, Any], BaseImageProcessor]] = {
    "an older release's extractor": (
        {"feature_extractor_type": "ViTFeatureExtractor", "size": 48, "do_resize": True},
        ViTImageProcessor(size={"height": 48, "width": 48}),
    ),
    "the fast class": (
        {"image_processor_type": "ViTImageProcessorFast", "size": {"height": 48, "width": 48}},
        ViTImageProcessor(size={"height": 48, "width": 48}),
    ),
    "sides as numbers": (
        {"image_processor_type": "CLIPImageProcessor", "size": 48, "crop_size": 40},
        CLIPImageProcessor(size={"shortest_edge": 48}, crop_size={"height": 40, "width": 40}),
    ),
    "own mean and scale": (
        {
            "image_processor_type": "ViTImageProcessor", "size": {"height": 48, "width": 48},
            "image_mean": [0.1, 0.2, 0.3], "image_std": [1.0, 2.0, 4.0], "rescale_factor": 0.5, "resample": 3,
        },
        ViTImageProcessor(
            size={"height": 48, "width": 48}, image_mean=[0.1, 0.2, 0.3], image_std=[1.0, 2.0, 4.0],
            rescale_factor=0.5, resample=3,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_older_shapes_of_the_file_give_the_pixels_of_their_class(shape: str, tmp_path: Path) -> None:
    config, kind = SHAPES[shape]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs = kind(images=[Image.fromarray(WIDE)], return_tensors="pt")["pixel_values"][0]
    assert torch.equal(load_image_processor(tmp_path)(WIDE), theirs)


def test_a_processor_inside_of_processor_config_is_read(tmp_path: Path) -> None:
    images = BlipImageProcessor(size={"height": 32, "width": 32})
    Blip2Processor(images, tiny_tokenizer(), num_query_tokens=2).save_pretrained(tmp_path)
    assert not (tmp_path / "preprocessor_config.json").exists()
    theirs = images(images=[Image.fromarray(WIDE)], return_tensors="pt")["pixel_values"][0]
    assert torch.equal(load_image_processor(tmp_path)(WIDE), theirs)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_image_of_few_rows_is_not_taken_for_one_whose_channels_come_first(
    rows: int, tmp_path: Path
) -> None:
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    colours = load_image_processor(tmp_path)(np.full((rows, 40, 3), (10, 200, 90), np.uint8))
    wanted = torch.tensor([10.0, 200.0, 90.0])[:, None, None] / 127.5 - 1.0
    assert torch.allclose(colours, wanted.expand(3, 32, 32), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (None, "has no image processor that transformers reads"),
        ("{", "has no image processor that transformers reads"),
        ({}, "has no image processor that transformers reads"),
        ({"image_processor_type": "NoSuchProcessor"}, "has no image processor that transformers reads"),
        ({"image_processor_type": "ViTImageProcessor", "do_resize": False}, "not into images of one size"),
        (
            {
                "image_processor_type": "CLIPImageProcessor",
                "size": {"shortest_edge": 32},
                "do_center_crop": False,
            },
            "not into images of one size",
        ),
        (
            {"image_processor_type": "Pix2StructImageProcessor"},
            "gives 'flattened_patches' beside or in place",
        ),
        ({"image_processor_type": "Siglip2ImageProcessor"}, "gives 'pixel_attention_mask'"),
        ({"image_processor_type": "ViTImageProcessor", "size": {"edge": 3}}, "transformers reads"),
    ],
)
def test_a_processor_that_gives_no_images_of_one_size_is_refused(
    config: dict[str, Any] | str | None, told: str, tmp_path: Path
) -> None:
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "preprocessor_config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelFormatRefused, match=told) as refused:
        load_image_processor(tmp_path)
    assert "\n" not in refused.value.detail


def test_an_image_that_the_processor_cannot_take_fails_alone(tmp_path: Path) -> None:
    config = {"image_processor_type": "PPOCRV5ServerRecImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config), encoding="utf-8")
    prepared = load_image_processor(tmp_path)
    assert prepared(WIDE).shape[0] == 3
    with pytest.raises(BadBackendOutput, match=r"PPOCR.* fails on an image of 900 x 20 pixels"):
        prepared(np.zeros((20, 900, 3), np.uint8))
