"""CLIP ViT-L/14 and ViT-H-14 at their published sizes, from open_clip's configurations on the meta device."""

from __future__ import annotations

import pytest
import torch

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import open_clip

from counterpose_core.suite import load_suite
from counterpose_services.models.weights import PUBLISHED_PREFIX

META = torch.device("meta")
SIZES = {
    # architecture: parameters, width of the joint space, transformer layers and width of the text tower
    "ViT-L-14": (427_616_513, 768, 12, 768),
    "ViT-H-14": (986_109_441, 1024, 24, 1024),
}
CONTEXT = 77


@pytest.mark.paper("LANCE-C-clip", "DI-C-clip")
@pytest.mark.parametrize("architecture", SIZES)
def test_clip_towers_have_the_published_shapes(architecture: str) -> None:
    total, width, layers, text_width = SIZES[architecture]
    with META:
        model = open_clip.create_model(architecture, device="meta", pretrained_text=False).eval()
    with torch.inference_mode():
        images = model.encode_image(torch.zeros(2, 3, 224, 224, device=META))
        texts = model.encode_text(torch.zeros(3, CONTEXT, dtype=torch.long, device=META))
    assert sum(tensor.numel() for tensor in model.parameters()) == total
    assert tuple(images.shape) == (2, width)
    assert tuple(texts.shape) == (3, width)
    assert model.context_length == CONTEXT
    assert len(model.transformer.resblocks) == layers
    assert tuple(model.token_embedding.weight.shape) == (49408, text_width)


@pytest.mark.parametrize(
    ("suite", "architecture"), [("lance", "ViT-L-14"), ("dataset-interfaces", "ViT-H-14")]
)
def test_paper_suites_name_an_architecture_that_exists(suite: str, architecture: str) -> None:
    name = load_suite(suite).scorer.clip
    assert name == PUBLISHED_PREFIX + architecture
    assert architecture in open_clip.list_models()
