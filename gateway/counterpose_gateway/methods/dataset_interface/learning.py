"""Learn tokens in a chain of short calls, and draw the images that judge them.

Preview images of an interface's class, made at once and without a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from counterpose_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceConfig,
    Image,
    Images,
    ImagesCreate,
    TokenCandidate,
    TokenItem,
)
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.tokens import (
    DroppedImage,
    LearnedToken,
    LearnTokenItem,
    LearnTokensRequest,
    TokenOffer,
)
from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.images.clip_metrics import Vectors
from counterpose_core.shift_benchmark.shifts import BASE, catalogue, shift_of
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.tenants import Used
from counterpose_gateway.runs.calls import Calls, own_cost
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.seeds import image_seed
from counterpose_gateway.steps.clip import embed_images, require_one_space, unit_vector
from counterpose_gateway.steps.prompts import class_prompt
from counterpose_gateway.steps.safety import allowed

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

OWN_IMAGES = 32
"""Number of a class's images that are embedded for their mean."""


@dataclass
class ClassState:
    """A class that learns its token: its images, their prompts, and its progress."""

    item: LeasedItem
    images: list[BlobRef]
    prompts: list[str] | None = None
    own_words: list[str] = field(default_factory=list)
    steps: int = 0
    checkpoint: BlobRef | None = None
    bundle: BlobRef | None = None
    offers: list[TokenOffer] = field(default_factory=list)
    interpolation_weight: float = 1.0
    candidates: list[TokenCandidate] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    read: int = 0
    dropped: list[DroppedImage] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)

    @property
    def own_images(self) -> list[BlobRef]:
        """The first of its images that can be read; generated images are compared with them."""
        lost = {dropped.image for dropped in self.dropped}
        return [image for image in self.images if image not in lost][:OWN_IMAGES]

    def advance(self, learned: LearnedToken) -> None:
        """Take over the result of a link.

        Raises:
            BadBackendOutput: the link made no progress, so the chain would never end.
        """
        if learned.bundle is None and learned.steps <= self.steps:
            raise BadBackendOutput(
                f"the editor took {self.item.label!r} from step {self.steps} to {learned.steps}"
            )
        self.steps, self.checkpoint, self.bundle = learned.steps, learned.checkpoint, learned.bundle
        self.offers, self.losses = list(learned.offers), [*self.losses, *learned.losses]
        self.read, self.dropped = learned.images, list(learned.dropped)
        self.cost += own_cost(learned.cost)


async def learn_further(
    calls: Calls, config: DatasetInterfaceConfig, states: Sequence[ClassState]
) -> tuple[Sequence[ClassState], Drops]:
    """Take the tokens of some classes one link further, in one batch.

    The editor remembers a link that was made before a worker died: repeating the chain
    repeats no step.
    """
    drops = Drops()
    with drops.on_error([state.item for state in states]):
        request = LearnTokensRequest(
            items=[_ask(config, state) for state in states],
            preset=config.preset,
            link_steps=config.link_steps,
            seed=config.request.seed,
        )
        outcomes = await calls.ask("editor", calls.services.editor.learn_tokens, request)
        for state, outcome in zip(states, outcomes, strict=True):
            with drops.on_error([state.item]):
                state.advance(outcome.unwrap())
    return states, drops


def _ask(config: DatasetInterfaceConfig, state: ClassState) -> LearnTokenItem:
    shared = config.request.token_init
    return LearnTokenItem(
        class_name=state.item.label,
        images=state.images,
        prompts=state.prompts,
        initialiser=None if shared == CLASS_NAME else shared,
        checkpoint=state.checkpoint,
        published=config.published.get(state.item.label),
    )


async def draw(
    calls: Calls, config: DatasetInterfaceConfig, state: ClassState, items: Sequence[GenerateItem]
) -> list[BlobRef]:
    """Draw images with the suite's settings, at the cost of the class.

    Raises:
        BackendError: an image could not be made.
    """
    outcomes = await calls.ask("editor", calls.services.editor.generate, config.generation.request(items))
    generated = [allowed(outcome) for outcome in outcomes]
    state.cost = sum((own_cost(result.cost) for result in generated), state.cost)
    return [result.image for result in generated]


async def embed(calls: Calls, images: Sequence[BlobRef]) -> Vectors:
    """Return CLIP's unit features (n, d) of images.

    Raises:
        BackendError: an image has no features, or the answer is not an embedding.
    """
    vectors = [unit_vector(outcome) for outcome in await embed_images(calls, images)]
    require_one_space(*vectors)
    return np.stack(vectors)


async def generate(run_id: str, body: ImagesCreate, context: RunContext, *, seconds: float) -> Images:
    """Make the requested images in one call of the editor, which takes ``seconds`` at most.

    Raises:
        NotFound: the interface does not exist.
        InvalidRequest: it has no such class, the class has no token yet, or the shift is invalid.
        QuotaExceeded: too little is left of the tenant's quota.
        PromptTooLong: the shift does not fit the editor's text encoder.
        BackendError: the editor failed.
    """
    access, used = context.ledger.access, Used()
    claim = await asyncio.to_thread(access.claim, body.n, seconds)
    try:
        made = await _generated(run_id, body, context)
        used = Used(len(made.images), made.cost.seconds)
        return made
    finally:
        await asyncio.to_thread(access.settle, claim, used)


async def _generated(run_id: str, body: ImagesCreate, context: RunContext) -> Images:
    config, token = await asyncio.to_thread(_class_of, context.ledger, run_id, body)
    shift = None if body.shift is None else shift_of(body.shift)
    prompt = class_prompt(catalogue().base if shift is None else shift.prompt, body.class_name, token)
    seeds = [image_seed(body.seed, body.class_name, place) for place in range(body.n)]
    items = [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]
    answer = await context.services.editor.generate(config.generation.changed_by(body).request(items))
    made = [allowed(outcome).image for outcome in answer.outcomes]
    # No run has them: without a note, nobody could look at them.
    await asyncio.to_thread(_keep, made, context)
    return Images(
        images=[
            Image(
                image=image, class_name=body.class_name, prompt=prompt, seed=seed,
                token=token, shift=BASE if shift is None else shift.name,
            )
            for seed, image in zip(seeds, made, strict=True)
        ],
        model=answer.model,
        cost=answer.cost,
    )  # fmt: skip


def _keep(made: Sequence[BlobRef], context: RunContext) -> None:
    context.ledger.blobs.keep({image: len(context.store.get(image)) for image in made})


def _class_of(
    ledger: Ledger, run_id: str, body: ImagesCreate
) -> tuple[DatasetInterfaceConfig, BlobRef | None]:
    """The interface's configuration and the class's token; None if the request asks for the class name."""
    config = DatasetInterfaceConfig.model_validate(
        ledger.runs.get(run_id, "dataset-interface").resolved_config
    )
    name = body.class_name
    if name not in config.classes:
        raise InvalidRequest(
            f"the interface has no class {name!r}{did_you_mean(name, config.classes)}; choose one of "
            f"{', '.join(config.classes[:5])}",
            pointer="/class_name",
        )
    if body.by_name:
        return config, None
    for item in ledger.items.of(run_id, TokenItem):
        if item.label == name and item.state == "done" and item.result is not None:
            return config, item.result.token
    raise InvalidRequest(
        f"the interface has not learned a token for {name!r} yet; wait for it, or set by_name",
        pointer="/class_name",
    )
