"""Learn tokens in a chain of short calls, and draw the images that judge them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig, TokenCandidate
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.tokens import (
    DroppedImage,
    LearnedToken,
    LearnTokenItem,
    LearnTokensRequest,
    TokenOffer,
)
from counterpose_core.errors import BadBackendOutput
from counterpose_core.images.clip_metrics import Vectors
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, own_cost
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.steps.clip import embed_images, require_one_space, unit_vector
from counterpose_gateway.steps.safety import allowed

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
