"""Evaluations an image and an edit, counted by editing with the suites' presets, and networks' operations.

The embedded generator edits a rendered image with a suite's own preset, which takes as many evaluations as
the published one would: only how soon null-text inversion converges is the embedded one's.
"""

from __future__ import annotations

import tempfile

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import load_suite
from counterpose_core.types import Cost
from counterpose_miniature.world import Scene, caption, render
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.unet.flops import autoencoder_flops, evaluation_flops
from evaluation.benchmarks.device.networks import Architecture
from evaluation.gpu_minutes.counts import PRESETS, Counted, Counts, Model, Operations, Work
from evaluation.paths import SUITE_WEIGHTS

SHOWN = Scene("boat", "plain", "red", "water", "clear", "photo", "none", nuisance=1)
CHANGED = tuple(
    SHOWN.changed(*change) for change in (("background", "snow"), ("colour", "blue"), ("weather", "fog"))
)
"""Three edits, so that what an image costs can be told from what an edit costs."""


def count() -> Counts:
    """Count all rows, in about a minute."""
    with tempfile.TemporaryDirectory() as folder:
        engine = EditorEngine.load(load_suite("miniature").editor, SUITE_WEIGHTS, BlobStore(folder))
        counted = [_counted(engine, *row) for row in PRESETS]
    models = dict.fromkeys(model for _, _, model in PRESETS)
    return Counts(counted=counted, operations={model: operations(model) for model in models})


def operations(model: Model) -> Operations:
    """Count a published architecture's operations on the meta device."""
    shape = Architecture.read(model)
    with torch.device("meta"):
        unet, vae = shape.build_unet(), AutoencoderKL.from_config(shape.vae)
    evaluation = evaluation_flops(unet, shape.latent_shape, shape.text_shape)
    side = shape.latent_side * 2 ** (len(vae.config.block_out_channels) - 1)
    encode, decode = autoencoder_flops(vae, shape.latent_shape, side)
    return Operations(forward=evaluation.forward, backward=evaluation.backward, encode=encode, decode=decode)


def _counted(engine: EditorEngine, suite: str, preset: str, model: Model) -> Counted:
    chosen = PromptToPromptPreset.of(load_suite(suite).editor.presets[preset])
    one, three = (_cost(engine, chosen, edits) for edits in (1, len(CHANGED)))
    edit = _work(three, one, share=len(CHANGED) - 1)
    image = Work.model_validate(
        {name: value - getattr(edit, name) for name, value in _work(one, Cost()).model_dump().items()}
    )
    return Counted(suite=suite, preset=preset, model=model, image=image, edit=edit)


def _cost(engine: EditorEngine, preset: PromptToPromptPreset, edits: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        # A store of its own: nothing is remembered of the call before.
        fresh = EditorEngine(engine.pipeline, load_suite("miniature").editor, BlobStore(folder))
        image = fresh.store.put(encode_png(render(SHOWN)))
        items = [
            EditItem(image=image, caption=caption(SHOWN), edited_caption=caption(scene))
            for scene in CHANGED[:edits]
        ]
        answer = fresh.edit(EditRequest(items=items, preset=preset))
        for outcome in answer.outcomes:
            outcome.unwrap()
        return answer.cost


def _work(cost: Cost, less: Cost, share: int = 1) -> Work:
    return Work(
        forward=(cost.unet_evaluations - less.unet_evaluations) / share,
        backward=(cost.unet_backward_evaluations - less.unet_backward_evaluations) / share,
        autoencoder=(cost.vae_passes - less.vae_passes) / share,
    )
