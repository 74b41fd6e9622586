"""Images that an attempt generates: how many in a call, and the call itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from counterpose_core.contract.editor import GenerateItem, GenerationPreset
from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_core.text.class_prompts import LONGEST_PROMPT
from counterpose_core.text.plain_text import check_caption
from counterpose_core.text.word_policy import policy_of
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.attempt import OpenItems, own_cost
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.safety import SAFETY, flagged

POLICY = "policy"
"""The reason of an item whose prompt the operator's content policy refuses."""
MALFORMED = "malformed-caption"
"""The reason of an item whose prompt a model wrote, and no generator can draw."""
_MOST_IMAGES = 16
_MOST_EVALUATIONS = 1200
"""Network evaluations in one call, about half a minute at 512 pixels: a call must not outlast a lease."""


@dataclass(frozen=True)
class Generated:
    """An item's image, what it was generated from, and its cost."""

    item: LeasedItem
    image: BlobRef
    asked: GenerateItem
    cost: Cost


def images_per_call(generation: GenerationPreset) -> int:
    """Return how many images one call may generate with these settings."""
    # Guidance evaluates the network twice per step: with and without the prompt.
    return min(_MOST_IMAGES, max(1, _MOST_EVALUATIONS // (2 * generation.steps)))


async def generate_images(
    attempt: OpenItems,
    generation: GenerationPreset,
    asked: Sequence[tuple[LeasedItem, GenerateItem]],
    services: Services,
    *,
    policy_words: Sequence[str] = (),
    by_models: Collection[str] = (),
) -> list[Generated]:
    """Generate the image of each item; those that fail or are flagged, or blank, are recorded and left out.

    So is an item whose prompt has a word or phrase of ``policy_words``, whoever wrote the prompt: nothing is
    drawn of it. ``by_models`` are the ids of items whose prompts captioner or language model wrote: one that
    the editor refuses is no failure of the run, but filtered as `MALFORMED`.

    Raises:
        BackendError: the editor failed as a whole.
    """
    asked = await _allowed(attempt, asked, policy_words)
    if not asked:
        # As where none of the items is worth drawing any more.
        return []
    request = generation.request([wanted for _, wanted in asked])
    response = await attempt.call("editor", services.editor.generate, request)
    outcomes = attempt.outcomes("editor", response)
    attempt.add_shared_cost(
        response.cost, [outcome.value.cost for outcome in outcomes if outcome.value is not None]
    )
    generated: list[Generated] = []
    for (item, wanted), outcome in zip(asked, outcomes, strict=True):
        async with attempt.fail_items_on_error([item]):
            try:
                made = outcome.unwrap()
            except (InvalidRequest, PromptTooLong) as refused:
                if item.id not in by_models:
                    raise
                await attempt.filtered(item, MALFORMED, refused.detail)
                continue
            if (why := flagged(made.safety)) is not None:
                await attempt.filtered(item, SAFETY, why)
                continue
            await check_image(made.image, attempt.store)
            generated.append(Generated(item, made.image, wanted, own_cost(made.cost)))
    return generated


async def _allowed(
    attempt: OpenItems, asked: Sequence[tuple[LeasedItem, GenerateItem]], policy_words: Sequence[str]
) -> list[tuple[LeasedItem, GenerateItem]]:
    policy, allowed = policy_of(tuple(policy_words)), list[tuple[LeasedItem, GenerateItem]]()
    for item, wanted in asked:
        if (phrase := policy.found(wanted.prompt)) is None:
            allowed.append((item, wanted))
        else:
            await attempt.filtered(item, POLICY, f"the content policy refuses {phrase!r}")
    return allowed


async def refuse_malformed(attempt: OpenItems, item: LeasedItem, caption: str) -> bool:
    """Filter an item whose caption a model wrote and no generator can read; return whether it is one."""
    if is_well_formed(caption):
        return False
    await attempt.filtered(item, MALFORMED, f"no generator can read the caption {caption[:200]!r}")
    return True


def is_well_formed(caption: str) -> bool:
    """Return whether a caption of a model is plain text that a text encoder may read."""
    try:
        check_caption(caption, most=LONGEST_PROMPT)
    except (InvalidRequest, PromptTooLong):
        return False
    return True
