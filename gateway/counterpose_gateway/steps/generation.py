"""Images that an attempt generates: how many in a call, and the call itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import BaseModel

from counterpose_core.contract.editor import GenerateItem, GenerationPreset
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.errors import InvalidRequest, PolicyRefused, PromptTooLong
from counterpose_core.suite import EditorSuite
from counterpose_core.text.class_prompts import LONGEST_PROMPT
from counterpose_core.text.plain_text import check_caption
from counterpose_core.text.word_policy import policy_of
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, own_cost
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.steps.safety import SAFETY, flagged

POLICY = "policy"
"""The reason of an item that a content policy refuses: the operator's, or that of a server of images."""
MALFORMED = "malformed-caption"
"""The reason of an item whose prompt a model wrote, and no generator can draw."""
_MOST_IMAGES = 16
_MOST_EVALUATIONS = 1200
"""Network evaluations in one call, about half a minute at 512 pixels: a call must not outlast a lease."""


@dataclass(frozen=True)
class Asked:
    """The image that an item asks for; a model may have written its prompt."""

    item: LeasedItem
    prompt: str
    seed: int
    token: BlobRef | None = None
    is_by_model: bool = False


@dataclass(frozen=True)
class Generated:
    """An item's image, what it was generated from, its cost, and the server that made it, if one did."""

    item: LeasedItem
    image: BlobRef
    asked: Asked
    cost: Cost
    served: ServedImage | None = None


def generation_of(editor: EditorSuite, preset: GenerationPreset, create: BaseModel) -> GenerationPreset:
    """Return the settings by which a run draws images from text: the suite's, changed by its request.

    Raises:
        InvalidRequest: the request sets one, and the suite's images are drawn by a server, which takes none.
    """
    given = [name for name in GenerationPreset.model_fields if getattr(create, name, None) is not None]
    if editor.server is not None and given:
        raise InvalidRequest(
            f"the images are drawn by the server {editor.server!r}, which takes no {given[0]}; leave it out",
            pointer=f"/{given[0]}",
        )
    return preset.changed_by(create)


def images_per_call(generation: GenerationPreset) -> int:
    """Return how many images one call may generate with these settings."""
    # Guidance evaluates the network twice per step: with and without the prompt.
    return min(_MOST_IMAGES, max(1, _MOST_EVALUATIONS // (2 * generation.steps)))


def drawable(asked: Sequence[Asked], policy_words: Sequence[str] = ()) -> tuple[list[Asked], Drops]:
    """Drop prompts of models that no generator can read, and any that has a word of ``policy_words``."""
    policy, kept, drops = policy_of(tuple(policy_words)), list[Asked](), Drops()
    for each in asked:
        if each.is_by_model and not is_well_formed(each.prompt):
            why = f"no generator can read the caption {each.prompt[:200]!r}"
            drops.filtered(each.item, MALFORMED, why)
        elif (phrase := policy.found(each.prompt)) is not None:
            drops.filtered(each.item, POLICY, f"the content policy refuses {phrase!r}")
        else:
            kept.append(each)
    return kept, drops


async def generate_images(
    calls: Calls, generation: GenerationPreset, asked: Sequence[Asked]
) -> tuple[list[Generated], Drops]:
    """Generate the image of each item; those that fail or are flagged, or blank, are dropped.

    A prompt of a model that the editor refuses is no failure of the run, but filtered as `MALFORMED`.

    Raises:
        BackendError: the editor failed as a whole.
    """
    generated, drops = list[Generated](), Drops()
    if not asked:
        # As where none of the items is worth drawing any more.
        return generated, drops
    items = [GenerateItem(prompt=each.prompt, seed=each.seed, token=each.token) for each in asked]
    outcomes = await calls.ask("editor", calls.services.editor.generate, generation.request(items))
    for each, outcome in zip(asked, outcomes, strict=True):
        with drops.on_error([each.item]), refusals_filtered(drops, each.item):
            try:
                made = outcome.unwrap()
            except (InvalidRequest, PromptTooLong) as refused:
                if not each.is_by_model:
                    raise
                drops.filtered(each.item, MALFORMED, refused.detail)
                continue
            if (why := flagged(made.safety)) is not None:
                drops.filtered(each.item, SAFETY, why)
                continue
            await check_image(made.image, calls.store)
            generated.append(Generated(each.item, made.image, each, own_cost(made.cost), made.served))
    return generated, drops


@contextmanager
def refusals_filtered(drops: Drops, item: LeasedItem) -> Iterator[None]:
    """Drop an item whose image a server refuses to make by its policy: it is filtered, and no failure."""
    try:
        yield
    except PolicyRefused as refused:
        drops.filtered(item, POLICY, refused.detail)


def is_well_formed(caption: str) -> bool:
    """Return whether a caption of a model is plain text that a text encoder may read."""
    try:
        check_caption(caption, most=LONGEST_PROMPT)
    except (InvalidRequest, PromptTooLong):
        return False
    return True
