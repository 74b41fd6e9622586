"""Edits as LANCE's released code makes them: one image after another, with gradients for all weights."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import UNet2DConditionModel

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import Pixels
from counterpose_services.editor.pipeline import Pipeline
from evaluation.benchmarks.workload import WEIGHTS, Workload
from evaluation.reference.plain_alignment import Word, carried_maps
from evaluation.reference.plain_editing import Target
from evaluation.reference.plain_unet import PlainUNet
from evaluation.reference.reference_run import REPLACES, Parity, ReferenceRun, Tally, reference_run


class Reference:
    """The reference with its own copy of the network; the pipeline encodes its text and images."""

    def __init__(self, pipeline: Pipeline, *, model: str = "editor", parity: Parity = "paper") -> None:
        self._pipeline, self._parity = pipeline, parity
        unet = UNet2DConditionModel.from_pretrained(WEIGHTS / model / "unet", use_safetensors=True)
        self.tally = Tally(PlainUNet(unet.eval()))

    def edit(self, work: Workload, preset: PromptToPromptPreset) -> list[ReferenceRun]:
        """Make all edits of each image, and decode what the reference decodes."""
        return [
            self._edit(image, caption, edited, preset)
            for image, caption, edited in zip(work.images, work.captions, work.edited_captions, strict=True)
        ]

    def _edit(
        self, image: Pixels, caption: str, edited: Sequence[str], preset: PromptToPromptPreset
    ) -> ReferenceRun:
        pipeline = self._pipeline
        made = reference_run(
            self.tally,
            pipeline.codec.encode([image]),
            pipeline.prompts.encode([caption]),
            pipeline.null[None],
            [self._target(caption, one, preset) for one in edited],
            parity=self._parity,
            steps=preset.steps,
            guidance=preset.guidance,
            cross_replace=preset.cross_replace,
            inner_steps=preset.inner_steps,
            tolerance=preset.inner_tolerance,
            velocity=pipeline.schedule.prediction == "v_prediction",
            sweep=preset.self_replace,
            injection_end=preset.injection_end,
        )
        # It shows the image, its reconstruction, and at each sweep value the source again next to the edits.
        source = made.reconstruction
        pipeline.codec.decode(torch.cat([source, source]))
        for images in made.images:
            pipeline.codec.decode(torch.cat([source, images]))
        return made

    def _target(self, caption: str, edited: str, preset: PromptToPromptPreset) -> Target:
        source, target = self._words(caption), self._words(edited)
        length = self._pipeline.prompts.length
        carried, weighted = carried_maps(
            source,
            target,
            length,
            replace=REPLACES[self._parity],
            tokens=preset.token_alignment,
            weighted=preset.weighted_words,
        )
        text = self._pipeline.prompts.encode([edited])
        return Target(text, carried, dict.fromkeys(weighted, preset.word_weight))

    def _words(self, text: str) -> list[Word]:
        prompt = self._pipeline.prompts.tokenize(text)
        found: dict[int, list[int]] = {}
        for token, word in zip(prompt.ids, prompt.words, strict=True):
            if word is not None:
                found.setdefault(word, []).append(token)
        return [tuple(tokens) for tokens in found.values()]
