"""Which share of what was learned a class keeps, by pictures under the prompts that it was learned from."""

from __future__ import annotations

import numpy as np

from faultline_core.clip_metrics import Vectors, cosine, unit
from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig, TokenCandidate
from faultline_core.contract.editor import GenerateItem
from faultline_core.contract.tokens import TokenOffer
from faultline_core.statistics import bootstrap_mean
from faultline_core.token_choice import least_share
from faultline_core.types import Estimate
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems
from faultline_gateway.workflows.class_pictures import draw, embed
from faultline_gateway.workflows.planning import derive_seed
from faultline_gateway.workflows.token_chain import Pupil

PICTURES = 24
"""Of each share, from the same prompts and seeds."""


async def choose(
    attempt: OpenItems, config: DatasetInterfaceConfig, pupil: Pupil, services: Services
) -> None:
    """Look at every token that is offered, and keep the smallest share that is as good as the best.

    Raises:
        BackendError: a service failed.
    """
    centre = unit((await embed(attempt, pupil.own_pictures, services)).mean(axis=0))
    scores, candidates, seed = [], [], config.request.seed
    for offer in pupil.offers:
        images = await draw(attempt, config, pupil, _asked(config, pupil, offer), services)
        made = await embed(attempt, images, services)
        # It tells both what the dataset shows and a class that is lost.
        near = cosine(made, centre)
        scores.append(near)
        candidates.append(
            TokenCandidate(share=offer.share, token=offer.bundle, resemblance=_mean(near, seed))
        )
    chosen = candidates[least_share([each.share for each in candidates], scores)]
    pupil.bundle, pupil.share, pupil.candidates = chosen.token, chosen.share, candidates


def _asked(config: DatasetInterfaceConfig, pupil: Pupil, offer: TokenOffer) -> list[GenerateItem]:
    templates = config.preset.templates.prompts
    prompts = pupil.prompts or templates
    label, seed = pupil.item.label, config.request.seed
    return [
        # Seeds of their own: what a token was chosen by is not what it is then judged by.
        GenerateItem(
            prompt=prompts[place % len(prompts)],
            seed=derive_seed(seed, "token choice", label, place),
            token=offer.bundle,
        )
        for place in range(PICTURES)
    ]


def _mean(values: Vectors, seed: int) -> Estimate:
    generator = np.random.default_rng(derive_seed(seed, "token choice"))
    return bootstrap_mean(values.tolist(), generator)
