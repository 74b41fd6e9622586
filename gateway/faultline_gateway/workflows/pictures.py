"""Reconstruction and edits at values of the sweep (LANCE, Algorithm 1, lines 6 and 12)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from faultline_core.contract.editor import (
    EditedImage,
    EditItem,
    EditorPreset,
    EditRequest,
    Reconstruction,
    ReconstructItem,
    ReconstructRequest,
)
from faultline_core.contract.runs import ItemResult
from faultline_core.contract.scorer import EditScores
from faultline_core.errors import (
    ArtifactMissing,
    BadBackendOutput,
    ImageTooLarge,
    ImageUndecodable,
    UnsupportedMedia,
)
from faultline_core.images import decode_image
from faultline_core.types import Cost, Decoder
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, Store, borne_alone, together
from faultline_gateway.workflows.text_filters import KeptEdit

_MOST_EDITS = 16
_MOST_EVALUATIONS = 1200
"""Of the network in one call, about half a minute at 512 pixels: a call must not outlast a lease."""


@dataclass(frozen=True)
class Draft:
    """A picture that was made and chosen, before any model predicted it."""

    item: LeasedItem
    result: ItemResult

    @property
    def image(self) -> str:
        """The picture."""
        return self.result.image


@dataclass(frozen=True)
class Variant:
    """The picture of an edit at one value of self_replace, and its scores as soon as it has any."""

    self_replace: float
    image: str
    scores: EditScores | None = None


@dataclass(frozen=True)
class Sweep:
    """An edit, its pictures at the values of self_replace tried so far in the preset's order, their cost."""

    kept: KeptEdit
    variants: tuple[Variant, ...] = ()
    cost: Cost = field(default_factory=Cost)


async def reconstruct(attempt: Attempt, source: LeasedItem, caption: str, services: Services) -> list[Draft]:
    """Bring the picture back from its inversion alone: the control of every edit."""
    item = attempt.one("reconstruction")
    drafts: list[Draft] = []
    if item is None:
        return drafts
    preset = attempt.config.preset
    async with attempt.blaming([item]):
        asked = [ReconstructItem(image=source.source_image, caption=caption)]
        request = ReconstructRequest(items=asked, preset=preset)
        response = await attempt.call("editor", services.editor.reconstruct, request)
        made = attempt.outcomes("editor", response, 1)[0].unwrap()
        attempt.share(response.cost, [made.cost])
        await check_picture(made.image, attempt.store)
        drafts.append(Draft(item, _control(made, caption, preset)))
    return drafts


def _control(made: Reconstruction, caption: str, preset: EditorPreset) -> ItemResult:
    return ItemResult(
        image=made.image, caption=caption, psnr_db=made.psnr_db, preset=preset, cost=borne_alone(made.cost)
    )


async def edit(
    attempt: Attempt,
    source: LeasedItem,
    caption: str,
    sweeps: Sequence[Sweep],
    values: tuple[float, ...],
    services: Services,
    *,
    decoder: Decoder = "full",
) -> list[Sweep]:
    """Make each edit at ``values`` of its sweep as well; those that fail are recorded and left out."""
    # Guidance asks the network twice a step: with the caption and without.
    evaluations = 2 * attempt.config.preset.steps * len(values)
    step = min(_MOST_EDITS, max(1, _MOST_EVALUATIONS // evaluations))
    chunks = [sweeps[start : start + step] for start in range(0, len(sweeps), step)]
    made = await together(
        _edit_chunk(attempt, source, caption, chunk, values, services, decoder) for chunk in chunks
    )
    return [sweep for chunk in made for sweep in chunk]


async def _edit_chunk(
    attempt: Attempt,
    source: LeasedItem,
    caption: str,
    sweeps: Sequence[Sweep],
    values: tuple[float, ...],
    services: Services,
    decoder: Decoder,
) -> list[Sweep]:
    captions = [sweep.kept.proposal.edited_caption for sweep in sweeps]
    items = [EditItem(image=source.source_image, caption=caption, edited_caption=text) for text in captions]
    order, made = attempt.config.preset.self_replace, list[Sweep]()
    async with attempt.blaming([sweep.kept.item for sweep in sweeps]):
        preset = attempt.config.preset
        request = EditRequest(items=items, preset=preset, self_replace=values, decoder=decoder)
        response = await attempt.call("editor", services.editor.edit, request)
        # A preview is answered by weights of its own, which are on record beside the editor's.
        name = "editor" if decoder == "full" else "preview-decoder"
        outcomes = attempt.outcomes(name, response, len(sweeps))
        attempt.share(
            response.cost, [outcome.value.cost for outcome in outcomes if outcome.value is not None]
        )
        for sweep, outcome in zip(sweeps, outcomes, strict=True):
            async with attempt.blaming([sweep.kept.item]):
                edited = outcome.unwrap()
                variants = [*sweep.variants, *_checked_variants(edited, values)]
                # In one order whatever was tried first: equal scores then give equal choices.
                variants.sort(key=lambda variant: order.index(variant.self_replace))
                made.append(replace(sweep, variants=tuple(variants), cost=sweep.cost + edited.cost))
    return made


def _checked_variants(edited: EditedImage, asked: Sequence[float]) -> list[Variant]:
    answered = [variant.self_replace for variant in edited.variants]
    # A service that computes in float32 answers 0.4000000059 for 0.4.
    if len(answered) != len(asked) or not np.allclose(answered, asked, atol=1e-6):
        raise BadBackendOutput(f"the editor answered the sweep {answered} where {list(asked)} was asked")
    return [Variant(value, made.image) for value, made in zip(asked, edited.variants, strict=True)]


async def check_picture(ref: str, store: Store) -> None:
    """Look at a generated picture before anything is concluded from it.

    Raises:
        BadBackendOutput: the picture was never stored, cannot be read, or is of one colour.
    """
    await asyncio.to_thread(_check_picture, ref, store)


def _check_picture(ref: str, store: Store) -> None:
    try:
        pixels = decode_image(store.get(ref))
    except (ArtifactMissing, ImageTooLarge, ImageUndecodable, UnsupportedMedia) as error:
        # Under its own code it would read as if the user's picture were to blame, and never be retried.
        raise BadBackendOutput(f"the editor named the picture {ref!r}: {error.detail}") from error
    # A safety checker's black frame would be scored as a classifier's failure.
    if int(pixels.max()) == int(pixels.min()):
        raise BadBackendOutput(f"the editor answered a blank picture, {ref!r}")
