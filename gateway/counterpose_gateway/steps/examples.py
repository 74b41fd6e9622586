"""Images drawn before a run exists, to see whether the generator knows the words of its prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.contract.editor import GenerateItem, GenerationPreset
from counterpose_core.errors import InvalidRequest, RequestError
from counterpose_core.types import BlobRef
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.seeds import image_seed
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.steps.generation import images_per_call
from counterpose_gateway.steps.safety import allowed


@dataclass(frozen=True)
class Example:
    """An image to draw: ``words`` must be known to the generator, ``pointer`` is where they are asked for."""

    words: str
    pointer: str
    asked: GenerateItem


def examples_of(prompts: Mapping[str, str], pointers: Mapping[str, str], seed: int) -> list[Example]:
    """Return one image of each label's prompt, with the seed of its first sample.

    ``pointers``: where the request names each label.
    """
    return [
        Example(label, pointers[label], GenerateItem(prompt=prompt, seed=image_seed(seed, label, 0)))
        for label, prompt in prompts.items()
    ]


async def draw_examples(
    examples: Sequence[Example], generation: GenerationPreset, context: RunContext
) -> dict[str, BlobRef]:
    """Draw the images, and return the one of each of their words.

    Raises:
        InvalidRequest: the generator does not know an example's words.
        BackendError: the editor is down.
    """
    drawn: dict[str, BlobRef] = {}
    size = images_per_call(generation)
    for start in range(0, len(examples), size):
        batch = examples[start : start + size]
        response = await context.services.editor.generate(generation.request([each.asked for each in batch]))
        for example, outcome in zip(batch, response.outcomes, strict=True):
            try:
                image = allowed(outcome).image
            except RequestError as error:
                raise InvalidRequest(
                    f"the generator of suite {context.suite.name!r} cannot draw {example.words!r}: "
                    f"{error.detail}",
                    pointer=example.pointer,
                ) from error
            await check_image(image, context.store)
            drawn[example.words] = image
    return drawn
