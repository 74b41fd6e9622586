"""The safety checker, on a small one that diffusers saved: its verdicts, and what the editor says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core import torchvision_operators  # noqa: F401
from fakes.tiny_pipeline import SUITE

# isort: split
import torch
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
from transformers import CLIPConfig, CLIPImageProcessor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    GenerateItem,
    GenerateRequest,
    ImageSafety,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.images.codecs import Pixels, encode_raw
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from counterpose_services.editor.safety import SafetyChecker

SIDE = 32


def save_checker(folder: Path, *, threshold: float, care: float = 1.0) -> StableDiffusionSafetyChecker:
    """Write a checker of random weights whose concepts all have one threshold."""
    torch.manual_seed(0)
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": SIDE, "patch_size": 8, "projection_dim": 8}  # fmt: skip
    network = StableDiffusionSafetyChecker(CLIPConfig(vision_config=vision, projection_dim=8)).eval()
    with torch.no_grad():
        network.concept_embeds.copy_(torch.randn(17, 8))
        network.special_care_embeds.copy_(torch.randn(3, 8))
        network.concept_embeds_weights.fill_(threshold)
        network.special_care_embeds_weights.fill_(care)
    network.save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=SIDE).save_pretrained(folder)
    return network


def images(n: int) -> list[Pixels]:
    draws = np.random.default_rng(0)
    return [draws.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for _ in range(n)]


@pytest.mark.fault("T17")
@pytest.mark.parametrize("care", [1.0, -1.0])
def test_the_verdicts_are_those_of_diffusers_own_checker(tmp_path: Path, care: float) -> None:
    given = images(24)
    scores = [each.score for each in _judged(tmp_path / "any", given, threshold=0.0, care=care)]
    # Between the scores, so that some are flagged and some are not.
    middle = float(np.median(scores))
    network = save_checker(tmp_path / "middle", threshold=middle, care=care)
    found = SafetyChecker(tmp_path / "middle").judge(given)
    processor = CLIPImageProcessor.from_pretrained(tmp_path / "middle")
    pixels = processor(images=given, return_tensors="pt")["pixel_values"]
    _, expected = network(clip_input=pixels, images=[image.copy() for image in given])
    assert [each.flagged for each in found] == expected
    assert 0 < sum(expected) < len(given)


def _judged(folder: Path, given: list[Pixels], *, threshold: float, care: float) -> list[ImageSafety]:
    save_checker(folder, threshold=threshold, care=care)
    return SafetyChecker(folder).judge(given)


@pytest.mark.fault("T17")
@pytest.mark.parametrize(("threshold", "flagged"), [(-1.0, True), (1.0, False)])
def test_the_editor_says_of_each_image_whether_it_is_flagged_and_keeps_its_pixels(
    pipeline: Pipeline, store: BlobStore, tmp_path: Path, threshold: float, flagged: bool
) -> None:
    save_checker(tmp_path, threshold=threshold)
    plain = EditorEngine(pipeline, SUITE, store)
    checked = EditorEngine(pipeline, SUITE, store, SafetyChecker(tmp_path))
    asked = GenerateRequest(items=[GenerateItem(prompt="a photo of a bus", seed=1)], steps=2)
    known, found = (each.generate(asked).outcomes[0].unwrap() for each in (plain, checked))
    assert known.safety is None
    assert found.safety is not None
    assert found.safety.flagged is flagged
    assert found.image == known.image
    image = store.put(encode_raw(np.full((16, 16, 3), 90, dtype=np.uint8)))
    item = EditItem(image=image, caption="a photo of a bus", edited_caption="a photo of a tram")
    preset = PromptToPromptPreset(steps=2, guidance=2.0, inner_steps=1)
    edited = checked.edit(EditRequest(items=[item], preset=preset)).outcomes[0].unwrap()
    assert [each.safety.flagged for each in edited.variants if each.safety] == [flagged] * len(
        edited.variants
    )


def test_a_folder_that_is_no_checker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="COUNTERPOSE_SERVICES_SAFETY_CHECKER"):
        SafetyChecker(tmp_path / "nowhere")
    save_checker(tmp_path, threshold=0.0)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(ModelFormatRefused, match="preprocessor_config"):
        SafetyChecker(tmp_path)
