"""Tokens learned in a chain of short calls: the checkpoint of one goes into the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from faultline_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig, TokenCandidate
from faultline_core.contract.tokens import (
    DroppedImage,
    LearnedToken,
    LearnTokenItem,
    LearnTokensRequest,
    TokenOffer,
)
from faultline_core.errors import BadBackendOutput
from faultline_core.types import BlobRef, Cost
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import OpenItems, borne_alone

OWN_PICTURES = 32
"""So many of a class's pictures are embedded to see what they have in common."""


@dataclass
class Pupil:
    """A class that learns its token: its pictures, what they are shown under, and how far it is."""

    item: LeasedItem
    images: list[BlobRef]
    prompts: list[str] | None = None
    own_words: list[str] = field(default_factory=list)
    steps: int = 0
    checkpoint: BlobRef | None = None
    bundle: BlobRef | None = None
    offers: list[TokenOffer] = field(default_factory=list)
    share: float = 1.0
    candidates: list[TokenCandidate] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    read: int = 0
    dropped: list[DroppedImage] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)

    @property
    def own_pictures(self) -> list[BlobRef]:
        """The first of its pictures that can be read: what is drawn is held against them."""
        lost = {dropped.image for dropped in self.dropped}
        return [image for image in self.images if image not in lost][:OWN_PICTURES]

    def advance(self, learned: LearnedToken) -> None:
        """Take over where a link has led.

        Raises:
            BadBackendOutput: it has led nowhere, so that the chain would never end.
        """
        if learned.bundle is None and learned.steps <= self.steps:
            raise BadBackendOutput(
                f"the editor took {self.item.label!r} from step {self.steps} to {learned.steps}"
            )
        self.steps, self.checkpoint, self.bundle = learned.steps, learned.checkpoint, learned.bundle
        self.offers, self.losses = list(learned.offers), [*self.losses, *learned.losses]
        self.read, self.dropped = learned.images, list(learned.dropped)
        self.cost += borne_alone(learned.cost)


async def learn(
    attempt: OpenItems, config: DatasetInterfaceConfig, pupils: Sequence[Pupil], services: Services
) -> None:
    """Take all classes that are still open to their tokens, a link at a time, those left in one batch.

    A link that was made before a worker died is remembered by the editor: going through the chain again
    takes no step twice.
    """
    while left := [pupil for pupil in pupils if pupil.bundle is None and attempt.is_open(pupil.item)]:
        async with attempt.blaming([pupil.item for pupil in left]):
            request = LearnTokensRequest(
                items=[_ask(config, pupil) for pupil in left],
                preset=config.preset,
                link_steps=config.link_steps,
                seed=config.request.seed,
            )
            response = await attempt.call("editor", services.editor.learn_tokens, request)
            outcomes = attempt.outcomes("editor", response, len(left))
            attempt.share(response.cost, [found.value.cost for found in outcomes if found.value is not None])
            for pupil, outcome in zip(left, outcomes, strict=True):
                async with attempt.blaming([pupil.item]):
                    pupil.advance(outcome.unwrap())


def _ask(config: DatasetInterfaceConfig, pupil: Pupil) -> LearnTokenItem:
    shared = config.request.token_init
    return LearnTokenItem(
        class_name=pupil.item.label,
        images=pupil.images,
        prompts=pupil.prompts,
        initialiser=None if shared == CLASS_NAME else shared,
        checkpoint=pupil.checkpoint,
    )
