"""Validate a learned token: CLIP on images from the token, from the plain name, and on real images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig, TokenResult
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.errors import BadBackendOutput, InvalidRequest, PromptTooLong
from counterpose_core.images.clip_metrics import Vectors, cosine, unit
from counterpose_core.shift_benchmark.shifts import catalogue
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.text.class_prompts import object_caption
from counterpose_core.types import BlobRef, Estimate
from counterpose_gateway.methods.dataset_interface.learning import ClassState, draw, embed
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.seeds import derive_seed, image_seed
from counterpose_gateway.steps.clip import embed_texts, require_one_space, unit_vector
from counterpose_gateway.steps.prompts import class_prompt

IMAGES = 8
"""Number of images that judge a token, and of the plain name's images from the same seeds."""
LISTED_LOSSES = 100


async def validate(calls: Calls, config: DatasetInterfaceConfig, state: ClassState) -> TokenResult:
    """Make images from the token and from the name, and compare both with the class's own.

    Raises:
        BackendError: a service failed, or its answer is not an embedding.
    """
    if state.bundle is None:
        raise BadBackendOutput(f"the editor ended without a token for {state.item.label!r}")
    label = state.item.label
    by_token = await draw(calls, config, state, _asked(config, label, state.bundle))
    by_name = await _by_name(calls, config, state)
    features = await embed(calls, [*by_token, *by_name, *state.own_images])
    token, name, real = np.split(features, [len(by_token), len(by_token) + len(by_name)])
    caption = await _caption(calls, label)
    require_one_space(features, caption)
    centre, seed = unit(real.mean(axis=0)), config.request.seed
    over = -(-len(state.losses) // LISTED_LOSSES)
    shared = config.request.token_init
    return TokenResult(
        token=state.bundle,
        interpolation_weight=state.interpolation_weight,
        candidates=state.candidates,
        published=label in config.published,
        initialiser=label if shared == CLASS_NAME else shared,
        steps=state.steps,
        losses=_means(state.losses, over),
        losses_over=max(1, over),
        n_images=state.read,
        dropped_images=state.dropped,
        own_words=state.own_words,
        token_images=by_token,
        name_images=by_name,
        object_similarity=_mean(cosine(token, caption), seed),
        name_similarity=_mean(cosine(name, caption), seed) if by_name else None,
        real_similarity=_mean(cosine(real, caption), seed),
        resemblance=_mean(cosine(token, centre), seed),
        name_resemblance=_mean(cosine(name, centre), seed) if by_name else None,
        cost=state.cost,
    )


async def _by_name(calls: Calls, config: DatasetInterfaceConfig, state: ClassState) -> list[BlobRef]:
    """Images from the plain name; empty if the generator cannot read the name, such as a code ("f101")."""
    try:
        return await draw(calls, config, state, _asked(config, state.item.label, None))
    except (InvalidRequest, PromptTooLong):
        # The token does not depend on the name, and its own images were drawn with the same settings.
        return []


def _asked(config: DatasetInterfaceConfig, label: str, token: BlobRef | None) -> list[GenerateItem]:
    prompt = class_prompt(catalogue().base, label, token)
    seeds = [image_seed(config.request.seed, label, place) for place in range(IMAGES)]
    return [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]


async def _caption(calls: Calls, label: str) -> Vectors:
    (outcome,) = await embed_texts(calls, [object_caption(label)])
    return unit_vector(outcome)


def _mean(values: Vectors, seed: int) -> Estimate:
    generator = np.random.default_rng(derive_seed(seed, "token validation"))
    return bootstrap_mean(values.tolist(), generator)


def _means(losses: Sequence[float], over: int) -> list[float]:
    return [float(np.mean(losses[start : start + over])) for start in range(0, len(losses), max(1, over))]
