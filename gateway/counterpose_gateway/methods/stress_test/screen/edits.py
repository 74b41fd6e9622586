"""Reconstruction and edits at values of the sweep (LANCE, Algorithm 1, lines 6 and 12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from counterpose_core.contract.editor import (
    EditedImage,
    EditItem,
    EditRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.regions import ConfinedBy
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.scorer import EditScores
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.errors import BadBackendOutput
from counterpose_core.types import Cost, Decoder
from counterpose_gateway.methods.stress_test.screen.regions import confined
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, own_cost, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.steps.generation import refusals_filtered
from counterpose_gateway.steps.safety import SAFETY, flagged

_MOST_EDITS = 16
_MOST_EVALUATIONS = 1200
"""Network evaluations in one call, about half a minute at 512 pixels: a call must not outlast a lease."""


@dataclass(frozen=True)
class Draft:
    """A generated image that was chosen, before any model predicted it."""

    item: LeasedItem
    result: ItemResult

    @property
    def image(self) -> str:
        """The image."""
        return self.result.image


@dataclass(frozen=True)
class Variant:
    """The image of an edit at one strength, and its scores once measured.

    ``preview_scores`` are those of its small image, where that was decoded in full after the choice;
    ``served`` says how a server made the image, ``confined_by`` what kept the rest of it, and
    ``unchanged`` is the image that this is told by.
    """

    strength: float
    image: str
    scores: EditScores | None = None
    preview_scores: EditScores | None = None
    served: ServedImage | None = None
    confined_by: ConfinedBy | None = None
    unchanged: str | None = None

    @property
    def compared(self) -> EditScores | None:
        """The scores by which it was compared with the other values."""
        return self.preview_scores or self.scores


@dataclass(frozen=True)
class Sweep:
    """An edit, its images at the strengths tried so far in the preset's order, and their cost."""

    kept: KeptEdit
    variants: tuple[Variant, ...] = ()
    cost: Cost = field(default_factory=Cost)


async def reconstruct(
    calls: Calls, subject: Subject, items: Iterable[LeasedItem]
) -> tuple[list[Draft], Drops]:
    """Make the image with nothing changed, by the path of its edits: their control.

    A backend that does not reconstruct edits the image from its caption to the same caption.
    """
    drafts, drops = list[Draft](), Drops()
    make = _reconstructed if subject.config.editing.capabilities.reconstruct else _edited_to_itself
    for item in items:
        with drops.on_error([item]), refusals_filtered(drops, item):
            result = await make(calls, subject)
            if result is None:
                drops.filtered(item, SAFETY, "the image with nothing changed is flagged")
            else:
                await check_image(result.image, calls.store)
                drafts.append(Draft(item, result))
    return drafts, drops


async def _reconstructed(calls: Calls, subject: Subject) -> ItemResult | None:
    preset, caption = subject.config.editing, subject.caption
    request = ReconstructRequest(items=[ReconstructItem(image=subject.image, caption=caption)], preset=preset)
    made = (await calls.ask("editor", calls.services.editor.reconstruct, request))[0].unwrap()
    return ItemResult(
        image=made.image, caption=caption, psnr_db=made.psnr_db, preset=preset, cost=own_cost(made.cost)
    )


async def _edited_to_itself(calls: Calls, subject: Subject) -> ItemResult | None:
    preset, caption = subject.config.editing, subject.caption
    strength = preset.sweep[:1]
    asked = [_item(subject, caption)]
    request = EditRequest(items=asked, preset=preset, strength=strength)
    made = (await calls.ask("editor", calls.services.editor.edit, request))[0].unwrap()
    cost = own_cost(made.cost)
    for variant in _checked_variants(made, strength):
        return ItemResult(
            image=variant.image,
            caption=caption,
            strength=variant.strength,
            preset=preset,
            served=variant.served,
            region=confined(subject, variant.confined_by, variant.unchanged),
            cost=cost,
        )
    return None


def _item(subject: Subject, edited_caption: str) -> EditItem:
    image, caption = subject.image, subject.caption
    return EditItem(image=image, caption=caption, edited_caption=edited_caption, region=subject.region)


async def edit(
    calls: Calls,
    subject: Subject,
    sweeps: Sequence[Sweep],
    values: tuple[float, ...],
    drops: Drops,
    *,
    decoder: Decoder = "full",
) -> list[Sweep]:
    """Add the images of each edit at ``values`` of its sweep; edits that fail are dropped."""
    evaluations = subject.config.editing.most_evaluations(len(values))
    step = min(_MOST_EDITS, max(1, _MOST_EVALUATIONS // evaluations))
    chunks = [sweeps[start : start + step] for start in range(0, len(sweeps), step)]
    edited_chunks = await together(
        _edit_chunk(calls, subject, chunk, values, drops, decoder) for chunk in chunks
    )
    return [sweep for chunk in edited_chunks for sweep in chunk]


async def _edit_chunk(
    calls: Calls,
    subject: Subject,
    sweeps: Sequence[Sweep],
    values: tuple[float, ...],
    drops: Drops,
    decoder: Decoder,
) -> list[Sweep]:
    captions = [sweep.kept.proposal.edited_caption for sweep in sweeps]
    items = [_item(subject, text) for text in captions]
    preset, edited_sweeps = subject.config.editing, list[Sweep]()
    with drops.on_error([sweep.kept.item for sweep in sweeps]):
        request = EditRequest(items=items, preset=preset, strength=values, decoder=decoder)
        # A preview uses weights of its own, which are recorded in addition to the editor's.
        name = "editor" if decoder == "full" else "preview-decoder"
        outcomes = await calls.ask("editor", calls.services.editor.edit, request, model=name)
        for sweep, outcome in zip(sweeps, outcomes, strict=True):
            with drops.on_error([sweep.kept.item]), refusals_filtered(drops, sweep.kept.item):
                edited = outcome.unwrap()
                variants = [*sweep.variants, *_checked_variants(edited, values)]
                if not variants:
                    worst = max(
                        edited.variants, key=lambda variant: variant.safety.score if variant.safety else 0
                    )
                    drops.filtered(sweep.kept.item, SAFETY, flagged(worst.safety) or "")
                    continue
                # Always in the same order: equal scores then give equal choices.
                variants.sort(key=lambda variant: preset.sweep.index(variant.strength))
                edited_sweeps.append(replace(sweep, variants=tuple(variants), cost=sweep.cost + edited.cost))
    return edited_sweeps


def _checked_variants(edited: EditedImage, asked: Sequence[float]) -> list[Variant]:
    answered = [variant.strength for variant in edited.variants]
    # A service that computes in float32 returns 0.4000000059 for 0.4.
    if len(answered) != len(asked) or not np.allclose(answered, asked, atol=1e-6):
        raise BadBackendOutput(f"the editor returned the sweep {answered} instead of {list(asked)}")
    # Of a sweep, the values whose images are flagged are no choice.
    return [
        Variant(value, made.image, served=made.served, confined_by=made.confined_by, unchanged=made.unchanged)
        for value, made in zip(asked, edited.variants, strict=True)
        if flagged(made.safety) is None
    ]
