"""The dataset interface: classes are learned as tokens in batches, and each token is then validated.

Choose the interpolation weight of a class's token, by images under its training prompts.

Validate a learned token: CLIP on images from the token, from the plain name, and on real images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceConfig,
    TokenCandidate,
    TokenResult,
)
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.tokens import TokenOffer
from counterpose_core.errors import BadBackendOutput, InvalidRequest, PromptTooLong
from counterpose_core.images.clip_metrics import Vectors, cosine, unit
from counterpose_core.shift_benchmark.shifts import catalogue
from counterpose_core.shift_benchmark.token_selection import least_weight
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.text.class_captions import class_captions
from counterpose_core.text.class_prompts import object_caption
from counterpose_core.types import BlobRef, Estimate
from counterpose_gateway.methods.dataset_interface.learning import ClassState, draw, embed, learn_further
from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.seeds import derive_seed, image_seed
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.clip import embed_texts, require_one_space, unit_vector
from counterpose_gateway.steps.prompts import class_prompt


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Learn the leased classes together and record each exactly once; a class that fails affects no other.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = DatasetInterfaceConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _work_through(attempt, config))


async def _work_through(attempt: OpenItems, config: DatasetInterfaceConfig) -> None:
    states, calls = list[ClassState](), attempt.calls
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            images = json.loads(calls.store.get(config.images[item.label]))
            states.append(ClassState(item, images))
    if config.prompts == "captions":
        attempt.keep(await write_prompts(calls, config, states))
    while left := [state for state in states if state.bundle is None and attempt.is_open(state.item)]:
        attempt.keep(await learn_further(calls, config, left))
    for state in states:
        if attempt.is_open(state.item):
            async with attempt.fail_items_on_error([state.item]):
                # A single candidate leaves nothing to choose.
                if len(state.offers) > 1:
                    await select_token(calls, config, state)
                await attempt.done(state.item, await validate(calls, config, state))


async def write_prompts(
    calls: Calls, config: DatasetInterfaceConfig, states: Sequence[ClassState]
) -> tuple[Sequence[ClassState], Drops]:
    """Give each image of each class a prompt that describes the rest of the image.

    An image whose caption is missing or does not mention the class gets the first template.
    """
    drops = Drops()
    usual = {name: await _captions(calls, images) for name, images in config.compared.items()}
    for state in states:
        with drops.on_error([state.item]):
            await _write(calls, config, state, usual)
    return states, drops


async def _write(
    calls: Calls, config: DatasetInterfaceConfig, state: ClassState, usual: Mapping[str, Sequence[str]]
) -> None:
    name = state.item.label
    # A common initialiser describes no class: "a photo of a <class> bus" would leave the bus unlearned.
    shared = "" if config.request.token_init == CLASS_NAME else config.request.token_init
    captions = {**usual, name: await _captions(calls, state.images)}
    written = class_captions(captions, shared=shared)[name]
    template = config.preset.templates.prompts[0]
    state.own_words = list(written.own)
    state.prompts = [prompt or template for prompt in written.prompts]


async def _captions(calls: Calls, images: Sequence[BlobRef]) -> list[str]:
    """The captioner's caption of each image, without its label; empty where there is no caption."""
    captions: list[str] = []
    for start in range(0, len(images), MAX_BATCH):
        items = [CaptionItem(image=image) for image in images[start : start + MAX_BATCH]]
        caption = calls.services.captioner.caption
        outcomes = await calls.ask("captioner", caption, CaptionRequest(items=items))
        # The editor reports and drops an image that cannot be read; here it has no caption.
        captions += ["" if outcome.value is None else outcome.value.text for outcome in outcomes]
    return captions


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


VALIDATION_IMAGES = 8
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
    by_token = await draw(calls, config, state, _asked_of_token(config, label, state.bundle))
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
        object_similarity=_validated(cosine(token, caption), seed),
        name_similarity=_validated(cosine(name, caption), seed) if by_name else None,
        real_similarity=_validated(cosine(real, caption), seed),
        resemblance=_validated(cosine(token, centre), seed),
        name_resemblance=_validated(cosine(name, centre), seed) if by_name else None,
        cost=state.cost,
    )


async def _by_name(calls: Calls, config: DatasetInterfaceConfig, state: ClassState) -> list[BlobRef]:
    """Images from the plain name; empty if the generator cannot read the name, such as a code ("f101")."""
    try:
        return await draw(calls, config, state, _asked_of_token(config, state.item.label, None))
    except (InvalidRequest, PromptTooLong):
        # The token does not depend on the name, and its own images were drawn with the same settings.
        return []


def _asked_of_token(config: DatasetInterfaceConfig, label: str, token: BlobRef | None) -> list[GenerateItem]:
    prompt = class_prompt(catalogue().base, label, token)
    seeds = [image_seed(config.request.seed, label, place) for place in range(VALIDATION_IMAGES)]
    return [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]


async def _caption(calls: Calls, label: str) -> Vectors:
    (outcome,) = await embed_texts(calls, [object_caption(label)])
    return unit_vector(outcome)


def _validated(values: Vectors, seed: int) -> Estimate:
    generator = np.random.default_rng(derive_seed(seed, "token validation"))
    return bootstrap_mean(values.tolist(), generator)


def _means(losses: Sequence[float], over: int) -> list[float]:
    return [float(np.mean(losses[start : start + over])) for start in range(0, len(losses), max(1, over))]
