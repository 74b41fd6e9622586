"""What a learned token is worth: CLIP on pictures made with it, by the plain name, and on the class's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from faultline_core.class_prompts import object_caption
from faultline_core.clip_metrics import Vectors, cosine, unit
from faultline_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig, TokenResult
from faultline_core.contract.editor import GenerateItem
from faultline_core.errors import BadBackendOutput, InvalidRequest, PromptTooLong
from faultline_core.shifts import catalogue
from faultline_core.statistics import bootstrap_mean
from faultline_core.types import BlobRef, Estimate
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems
from faultline_gateway.workflows.class_pictures import draw, embed
from faultline_gateway.workflows.clip_features import embed_texts, require_one_space, vector_of
from faultline_gateway.workflows.picture_prompts import prompt_of
from faultline_gateway.workflows.picture_seeds import picture_seed
from faultline_gateway.workflows.planning import derive_seed
from faultline_gateway.workflows.token_chain import Pupil

PICTURES = 8
"""Pictures that a token is judged by, and as many of the plain name, from the same seeds."""
LISTED_LOSSES = 100


async def validate(
    attempt: OpenItems, config: DatasetInterfaceConfig, pupil: Pupil, services: Services
) -> TokenResult:
    """Make pictures with the token and by the name, and hold both against the class's own.

    Raises:
        BackendError: a service failed, or answered what is no embedding.
    """
    if pupil.bundle is None:
        raise BadBackendOutput(f"the editor ended without a token for {pupil.item.label!r}")
    label = pupil.item.label
    by_token = await draw(attempt, config, pupil, _asked(config, label, pupil.bundle), services)
    by_name = await _by_name(attempt, config, pupil, services)
    found = await embed(attempt, [*by_token, *by_name, *pupil.own_pictures], services)
    token, name, real = np.split(found, [len(by_token), len(by_token) + len(by_name)])
    caption = await _caption(attempt, label, services)
    require_one_space(found, caption)
    centre, seed = unit(real.mean(axis=0)), config.request.seed
    over = -(-len(pupil.losses) // LISTED_LOSSES)
    shared = config.request.token_init
    return TokenResult(
        token=pupil.bundle,
        share=pupil.share,
        candidates=pupil.candidates,
        initialiser=label if shared == CLASS_NAME else shared,
        steps=pupil.steps,
        losses=_means(pupil.losses, over),
        losses_over=max(1, over),
        images=pupil.read,
        dropped_images=pupil.dropped,
        own_words=pupil.own_words,
        pictures=by_token,
        name_pictures=by_name,
        object_similarity=_mean(cosine(token, caption), seed),
        name_similarity=_mean(cosine(name, caption), seed) if by_name else None,
        real_similarity=_mean(cosine(real, caption), seed),
        resemblance=_mean(cosine(token, centre), seed),
        name_resemblance=_mean(cosine(name, centre), seed) if by_name else None,
        cost=pupil.cost,
    )


async def _by_name(
    attempt: OpenItems, config: DatasetInterfaceConfig, pupil: Pupil, services: Services
) -> list[BlobRef]:
    """Pictures by the plain name; none where the generator cannot read it, as a code ("f101") may be."""
    try:
        return await draw(attempt, config, pupil, _asked(config, pupil.item.label, None), services)
    except (InvalidRequest, PromptTooLong):
        # The token was learned from another word, and its own pictures were drawn by the same settings.
        return []


def _asked(config: DatasetInterfaceConfig, label: str, token: BlobRef | None) -> list[GenerateItem]:
    prompt = prompt_of(catalogue().base, label, token)
    seeds = [picture_seed(config.request.seed, label, place) for place in range(PICTURES)]
    return [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]


async def _caption(attempt: OpenItems, label: str, services: Services) -> Vectors:
    (outcome,) = await embed_texts(attempt, [object_caption(label)], services)
    return vector_of(outcome)


def _mean(values: Vectors, seed: int) -> Estimate:
    generator = np.random.default_rng(derive_seed(seed, "token validation"))
    return bootstrap_mean(values.tolist(), generator)


def _means(losses: Sequence[float], over: int) -> list[float]:
    return [float(np.mean(losses[start : start + over])) for start in range(0, len(losses), max(1, over))]
