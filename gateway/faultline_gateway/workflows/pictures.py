"""Reconstruction and edits over the sweep (LANCE, Algorithm 1, lines 6 and 12)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

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
from faultline_core.errors import (
    ArtifactMissing,
    BadBackendOutput,
    ImageTooLarge,
    ImageUndecodable,
    UnsupportedMedia,
)
from faultline_core.images import decode_image
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


@dataclass(frozen=True)
class Sweep:
    """An edit and its pictures, one for each value of self_replace."""

    kept: KeptEdit
    edited: EditedImage


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
    attempt: Attempt, source: LeasedItem, caption: str, kept: Sequence[KeptEdit], services: Services
) -> list[Sweep]:
    """Make each kept edit at every value of the sweep."""
    # Guidance asks the network twice a step: with the caption and without.
    evaluations = 2 * attempt.config.preset.steps * len(attempt.config.preset.self_replace)
    step = min(_MOST_EDITS, max(1, _MOST_EVALUATIONS // evaluations))
    chunks = [kept[start : start + step] for start in range(0, len(kept), step)]
    made = await together(_edit_chunk(attempt, source, caption, chunk, services) for chunk in chunks)
    return [sweep for sweeps in made for sweep in sweeps]


async def _edit_chunk(
    attempt: Attempt, source: LeasedItem, caption: str, kept: Sequence[KeptEdit], services: Services
) -> list[Sweep]:
    preset = attempt.config.preset
    captions = [edit.proposal.edited_caption for edit in kept]
    items = [EditItem(image=source.source_image, caption=caption, edited_caption=text) for text in captions]
    sweeps: list[Sweep] = []
    async with attempt.blaming([edit.item for edit in kept]):
        response = await attempt.call("editor", services.editor.edit, EditRequest(items=items, preset=preset))
        outcomes = attempt.outcomes("editor", response, len(kept))
        attempt.share(
            response.cost, [outcome.value.cost for outcome in outcomes if outcome.value is not None]
        )
        for edit, outcome in zip(kept, outcomes, strict=True):
            async with attempt.blaming([edit.item]):
                sweeps.append(Sweep(edit, _checked_sweep(outcome.unwrap(), preset.self_replace)))
    return sweeps


def _checked_sweep(edited: EditedImage, expected: Sequence[float]) -> EditedImage:
    answered = [variant.self_replace for variant in edited.variants]
    # A service that computes in float32 answers 0.4000000059 for 0.4.
    if len(answered) != len(expected) or not np.allclose(answered, expected, atol=1e-6):
        raise BadBackendOutput(f"the editor answered the sweep {answered} where {list(expected)} was asked")
    return edited


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
