"""Choose the interpolation weight of a class's token, by images under its training prompts."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceConfig, TokenCandidate
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.tokens import TokenOffer
from counterpose_core.images.clip_metrics import Vectors, cosine, unit
from counterpose_core.shift_benchmark.token_selection import least_weight
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from counterpose_gateway.methods.dataset_interface.learning import ClassState, draw, embed
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.seeds import derive_seed

IMAGES = 24
"""Images for each interpolation weight, from the same prompts and seeds."""


async def select_token(calls: Calls, config: DatasetInterfaceConfig, state: ClassState) -> None:
    """Evaluate every candidate token, and keep the smallest weight that is as good as the best.

    Raises:
        BackendError: a service failed.
    """
    centre = unit((await embed(calls, state.own_images)).mean(axis=0))
    scores, candidates, seed = [], [], config.request.seed
    for offer in state.offers:
        images = await draw(calls, config, state, _asked(config, state, offer))
        features = await embed(calls, images)
        # It measures both likeness to the dataset and loss of the class.
        near = cosine(features, centre)
        scores.append(near)
        candidates.append(
            TokenCandidate(
                interpolation_weight=offer.interpolation_weight,
                token=offer.bundle,
                resemblance=_mean(near, seed),
            )
        )
    chosen = candidates[least_weight([candidate.interpolation_weight for candidate in candidates], scores)]
    state.bundle, state.interpolation_weight, state.candidates = (
        chosen.token,
        chosen.interpolation_weight,
        candidates,
    )


def _asked(config: DatasetInterfaceConfig, state: ClassState, offer: TokenOffer) -> list[GenerateItem]:
    templates = config.preset.templates.prompts
    prompts = state.prompts or templates
    label, seed = state.item.label, config.request.seed
    return [
        # Separate seeds: a token is not judged by the images that selected it.
        GenerateItem(
            prompt=prompts[place % len(prompts)],
            seed=derive_seed(seed, "token choice", label, place),
            token=offer.bundle,
        )
        for place in range(IMAGES)
    ]


def _mean(values: Vectors, seed: int) -> Estimate:
    generator = np.random.default_rng(derive_seed(seed, "token choice"))
    return bootstrap_mean(values.tolist(), generator)
