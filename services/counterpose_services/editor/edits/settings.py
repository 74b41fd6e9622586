"""A preset as the core reads it: noise levels, solver, and the settings of inversions and edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from torch import Tensor

from counterpose_core.blobs import cache_key
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.generate import starting_noise
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.local_blend import BlendWords
from counterpose_core.editing.noise_schedule import NoiseSchedule, Timetable
from counterpose_core.editing.prompt_alignment import align
from counterpose_core.editing.solvers import solver as solvers
from counterpose_core.editing.solvers.solver import Consistent, DPMSolver2M
from counterpose_core.editing.sweep import fork_steps
from counterpose_core.types import BlobRef, Solver
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.conditions import conditioned
from counterpose_services.editor.edits.regions import latent_region

SOLVERS: Mapping[Solver, solvers.Solver] = MappingProxyType(
    {"ddim": solvers.DDIM(), "dpm-solver++": DPMSolver2M(), "consistent": Consistent()}
)
_SEED_DIGITS = 15
"""Hexadecimal, of 60 bits: what every generator takes."""


def preset_timetable(schedule: NoiseSchedule, preset: PromptToPromptPreset) -> Timetable:
    """Choose the noise levels of a preset."""
    return schedule.timetable(preset.steps, preset.spacing)


def image_noise(
    preset: PromptToPromptPreset, images: Sequence[BlobRef], shape: tuple[int, int, int]
) -> Tensor:
    """Draw noise (B, C, h, w) by the preset's seed and each image's bytes alone.

    Args:
        preset: gives the seed.
        images: the B images by their digests.
        shape: channels, height and width (C, h, w) of an image's latents.
    """
    # The seed alone would give all images one noise, and what it favours to all their edits.
    # The keyword is hashed too: under another word, every image would get other noise.
    seeds = [cache_key(seed=preset.seed, picture=image)[:_SEED_DIGITS] for image in images]
    return starting_noise([int(seed, 16) for seed in seeds], shape)


def null_text_settings(preset: PromptToPromptPreset) -> NullTextSettings:
    """Take the settings of null-text inversion out of a preset."""
    return NullTextSettings(
        guidance=preset.guidance,
        inner_steps=preset.inner_steps,
        learning_rate=preset.inner_learning_rate,
        tolerance=preset.inner_tolerance,
    )


def edit_settings(request: EditRequest, table: Timetable, guidance: float) -> EditSettings:
    """Take the settings of a request's edits out of its preset.

    Args:
        request: the preset, and the strengths that are asked for: values of its self_replace.
        table: the noise levels; paths of other values of the sweep part at some of them.
        guidance: the scale that is left to apply between two evaluations, 1 where the network takes it in.
    """
    preset = PromptToPromptPreset.of(request.preset)
    return EditSettings(
        guidance=guidance,
        cross_replace=preset.cross_replace,
        self_replace=request.values,
        fork_steps=fork_steps(table, set(preset.self_replace) - set(request.values), preset.injection_end),
        injection_end=preset.injection_end,
        solver=SOLVERS[preset.solver],
    )


def edit_tasks(
    call: EngineCall,
    items: Sequence[EditItem],
    images: Sequence[CaptionedImage],
    preset: PromptToPromptPreset,
) -> list[EditTask]:
    """Encode the edited captions of items and align them with the captions of their images.

    Args:
        call: the pipeline, and the store with the masks of regions.
        items: the edits, one task each.
        images: the inverted images of the call, to which the tasks refer by place.
        preset: how tokens are aligned, which words are weighted and how much, and whether edits are blended
            into their image locally.
    """
    pipeline, prompts = call.pipeline, call.pipeline.prompts
    own = [pipeline.captioned(item) for item in items]
    texts = conditioned(call, own, prompts.encode([item.edited_caption for item in items])) if items else ()
    tasks = []
    for item, image, text in zip(items, own, texts, strict=True):
        aligned = align(prompts.tokenize(item.caption), prompts.tokenize(item.edited_caption))
        cross = cross_edit(
            aligned,
            prompts.length,
            word_weight=preset.word_weight,
            tokens=preset.token_alignment,
            weighted=preset.weighted_words,
        ).to(text)
        words = BlendWords.of(aligned, prompts.length) if preset.local_blend else None
        bounds = item.region
        region = None if bounds is None else latent_region(pipeline, call.store, item.image, bounds)
        tasks.append(EditTask(images.index(image), text, cross, words, region=region))
    return tasks
