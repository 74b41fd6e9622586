"""The safety checker of Stable Diffusion (diffusers): which images it flags, and by how much.

Its own pipeline paints a flagged image black, which a classifier would get wrong: here the image stays, and
whoever asked for it filters it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
from torch import Tensor
from torch.nn.functional import normalize
from transformers import CLIPImageProcessor

from counterpose_core.contract.editor import ImageSafety
from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.images.codecs import Pixels
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.model_folder import require_safetensors

CARE = 0.01
"""How much stricter the concepts are on an image that is near one of those that need special care."""
BATCH = 16


class SafetyChecker:
    """A folder with the checker as diffusers saves it, and its ``preprocessor_config.json``.

    Raises:
        UnknownModel: there is no such folder.
        ModelFormatRefused: weights are not safetensors, do not fit, or the preprocessor is missing.
    """

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        if not folder.is_dir():
            raise UnknownModel(
                f"there is no safety checker in {str(folder)!r}; set COUNTERPOSE_SERVICES_SAFETY_CHECKER to "
                "its folder"
            )
        require_safetensors(folder)
        self._device = torch.device(device)
        self._network = load_fitting(StableDiffusionSafetyChecker, folder).eval().to(self._device)
        try:
            self._processor = CLIPImageProcessor.from_pretrained(folder)
        except OSError as error:
            raise ModelFormatRefused(
                f"the safety checker in {str(folder)!r} has no preprocessor_config.json; add it"
            ) from error

    def judge(self, images: Sequence[Pixels]) -> list[ImageSafety]:
        """Return for each uint8 image (H, W, 3) whether it is flagged, and its score: above 0 is flagged."""
        judged: list[ImageSafety] = []
        for start in range(0, len(images), BATCH):
            judged += self._judge(images[start : start + BATCH])
        return judged

    @torch.inference_mode()
    def _judge(self, images: Sequence[Pixels]) -> list[ImageSafety]:
        pixels = self._processor(images=list(images), return_tensors="pt")["pixel_values"].to(self._device)
        network = self._network
        seen = normalize(network.visual_projection(network.vision_model(pixels)[1]))
        care = _above(seen, network.special_care_embeds, network.special_care_embeds_weights)
        concepts = _above(seen, network.concept_embeds, network.concept_embeds_weights)
        scores = concepts + CARE * (care.round(decimals=3) > 0).float()
        return [ImageSafety(flagged=round(score, 3) > 0, score=score) for score in scores.tolist()]


def _above(seen: Tensor, concepts: Tensor, thresholds: Tensor) -> Tensor:
    """By how much each image's cosine with a concept exceeds its threshold, for the nearest concept (n,)."""
    return (seen @ normalize(concepts).T - thresholds).max(dim=1).values
