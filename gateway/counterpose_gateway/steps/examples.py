"""One image of each label, drawn before a run exists, to see whether the generator knows its words."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose_core.contract.editor import GenerateItem, GenerationPreset
from counterpose_core.errors import InvalidRequest, RequestError
from counterpose_core.types import BlobRef
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.seeds import image_seed
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.steps.generation import images_per_call
from counterpose_gateway.steps.safety import allowed


async def draw_examples(
    prompts: Mapping[str, str],
    pointers: Mapping[str, str],
    generation: GenerationPreset,
    seed: int,
    context: RunContext,
) -> dict[str, BlobRef]:
    """Draw one image of each label's prompt, with the seed of its first sample.

    ``pointers``: where the request names each label.

    Raises:
        InvalidRequest: the generator does not know a label's words.
    """
    examples: dict[str, BlobRef] = {}
    listed, size = list(prompts), images_per_call(generation)
    for start in range(0, len(listed), size):
        labels = listed[start : start + size]
        asked = [GenerateItem(prompt=prompts[label], seed=image_seed(seed, label, 0)) for label in labels]
        response = await context.services.editor.generate(generation.request(asked))
        for label, outcome in zip(labels, response.outcomes, strict=True):
            try:
                drawn = allowed(outcome).image
            except RequestError as error:
                raise InvalidRequest(
                    f"the generator of suite {context.suite.name!r} cannot draw {label!r}: {error.detail}",
                    pointer=pointers[label],
                ) from error
            await check_image(drawn, context.store)
            examples[label] = drawn
    return examples
