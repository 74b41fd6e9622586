"""The classifiers under test: their orders, their saved folders and the drops they are measured by."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import pytest
import timm
import torch
from timm.data.config import resolve_model_data_config
from torch import Tensor

from counterpose_miniature.training import classifier
from counterpose_miniature.training.bugs import SUITE_BUGS as BUGS
from counterpose_miniature.training.bugs import read_bugs
from counterpose_miniature.training.classifier import Order
from counterpose_miniature.training.classifier_quality import true_drop
from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.world import UNIFORM, VALUES

BOAT = read_bugs(BUGS / "leaning-resnet.json")[0]
# Untyped in timm.
RESOLVE: Callable[..., dict[str, Any]] = resolve_model_data_config
LOG = logging.getLogger("test")


def test_without_bugs_a_classifier_sees_uniform_scenes() -> None:
    assert Order("test_resnet", (), seed=0).distribution() == UNIFORM
    assert Order("test_resnet", (BOAT,), seed=0).distribution() != UNIFORM


def test_an_unknown_architecture_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'resnet50'"):
        Order("resnet50", (), seed=0)


@pytest.mark.paper("LANCE-D-preprocessing")
@pytest.mark.parametrize("architecture", ["test_resnet", "test_vit"])
def test_timm_loads_a_saved_classifier_with_its_preprocessing(tmp_path: Path, architecture: str) -> None:
    torch.manual_seed(0)
    model = timm.create_model(architecture, num_classes=8, **classifier.ARCHITECTURES[architecture]).eval()
    classifier.save(model, architecture, tmp_path)
    loaded = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    settings = RESOLVE(loaded)
    assert list(settings["input_size"]) == [3, 64, 64]
    assert settings["crop_pct"] == 1.0
    assert tuple(settings["mean"]) == (0.5, 0.5, 0.5)
    image = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(loaded(image), model(image), atol=5e-3, rtol=5e-3)
    assert json.loads((tmp_path / "class_map.json").read_text()) == list(VALUES["object_class"])


def test_the_true_drop_is_the_loss_on_harmed_renderings() -> None:
    night = {"attribute": "weather", "value": "night", "mode": "mistaken-for"}
    true = VALUES["object_class"].index("boat")

    def brightness(images: Tensor) -> Tensor:
        found = torch.zeros(len(images), 8)
        found[:, true] = images.mean(dim=(1, 2, 3))
        return found

    drop = true_drop(brightness, BOAT.model_copy(update=night), 20)
    assert drop.n == 20
    assert drop.low is not None
    assert drop.low > 0.1


def test_degradation_keeps_range_and_shape_and_follows_its_seed() -> None:
    images = torch.rand(32, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    found = [degrade(images, torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(found[0], found[1])
    assert found[0].shape == images.shape
    assert 0.0 <= float(found[0].min()) <= float(found[0].max()) <= 1.0
    assert not torch.allclose(found[0], images)


def test_mirroring_flips_only_some_images() -> None:
    images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    found = mirrored(images, torch.Generator().manual_seed(0))
    flipped = [torch.equal(one, other.flip(2)) for one, other in zip(found, images, strict=True)]
    kept = [torch.equal(one, other) for one, other in zip(found, images, strict=True)]
    assert all(one != other for one, other in zip(flipped, kept, strict=True))
    assert 0 < sum(flipped) < 16
