"""The structure distance by a network of the user's, here a small one with random weights."""

from __future__ import annotations

from counterpose_core import torchvision_operators  # noqa: F401  # before transformers, which loads torchvision

# isort: split
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTModel

from counterpose_core.errors import InvalidRequest
from evaluation.pie_bench.metrics import Distance
from evaluation.pie_bench.structure import structure_distance

HEADS, WIDTH = 2, 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vision transformer as transformers saves it."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=WIDTH,
        patch_size=16,
    )
    where = tmp_path_factory.mktemp("vit")
    ViTModel(config, add_pooling_layer=False).save_pretrained(where)
    return where


def images() -> tuple[np.ndarray, np.ndarray]:
    """An image and another one."""
    first = np.random.default_rng(0).random((64, 64, 3), dtype=np.float32)
    return first, np.roll(first, 9, axis=0)


def test_it_compares_the_cosines_of_the_last_layers_keys(folder: Path) -> None:
    network = ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    similarities = []
    for image in images():
        pixels = torch.nn.functional.interpolate(
            255 * torch.from_numpy(image).permute(2, 0, 1)[None], (224, 224), mode="bilinear", antialias=True
        )
        mean, deviation = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
        with torch.no_grad():
            hidden = network(
                (pixels - mean[:, None, None]) / deviation[:, None, None], output_hidden_states=True
            ).hidden_states
            last = network.layers[-1]
            keys = last.attention.k_proj(last.layernorm_before(hidden[-2]))[0]
        similarities.append(torch.nn.functional.cosine_similarity(keys[:, None], keys[None], dim=-1))
    expected = float(((similarities[0] - similarities[1]) ** 2).mean())
    distance: Distance = structure_distance(folder)
    assert distance(*images()) == pytest.approx(expected, rel=1e-4)
    assert expected > 0
    assert distance(images()[0], images()[0]) == 0


def test_a_folder_without_a_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no vision transformer"):
        structure_distance(tmp_path)
