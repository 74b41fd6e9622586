"""CLIP's similarities of a cell's images to the captions of its class and its shift."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.shift_benchmarks import ImageResult, ShiftBenchmarkConfig
from faultline_core.images.clip_metrics import Vectors, cosine
from faultline_core.shift_benchmark.shifts import BASE
from faultline_core.text.class_prompts import object_caption
from faultline_gateway.methods.shift_benchmark.cells import Cell
from faultline_gateway.methods.shift_benchmark.images import ImageDraft, Obtained
from faultline_gateway.runs.attempt import OpenItems, together
from faultline_gateway.runs.clip import embed_images, embed_texts, require_one_space, unit_vector
from faultline_gateway.services.ports import Services


async def measure(
    attempt: OpenItems,
    config: ShiftBenchmarkConfig,
    cell: Cell,
    obtained: Sequence[Obtained],
    services: Services,
) -> list[ImageDraft]:
    """Compare each image with its captions; an image that cannot be embedded is recorded and left out.

    Raises:
        BackendError: CLIP failed as a whole, or its answer for a caption is not an embedding.
    """
    if not obtained:
        return []
    captions = _captions(config, cell)
    images, texts = await together(
        [
            embed_images(attempt, [entry.image for entry in obtained], services),
            embed_texts(attempt, list(captions.values()), services),
        ]
    )
    wanted = dict(zip(captions, map(unit_vector, texts), strict=True))
    drafts: list[ImageDraft] = []
    for entry, outcome in zip(obtained, images, strict=True):
        async with attempt.fail_items_on_error([entry.item]):
            similarities = {field: _cosine(unit_vector(outcome), text) for field, text in wanted.items()}
            result = ImageResult(
                image=entry.image,
                image_source=cell.image_source,
                shift=cell.condition_name(config),
                prompt=entry.prompt,
                seed=entry.seed,
                token=entry.token,
                unsearched=entry.unsearched,
                cost=entry.cost,
                **similarities,
            )
            drafts.append(ImageDraft(entry.item, result))
    return drafts


def _captions(config: ShiftBenchmarkConfig, cell: Cell) -> dict[str, str]:
    """The captions that an image is compared with, by the field that holds the similarity."""
    shift, name = config.shifts[cell.condition], cell.class_name(config)
    captions = {"object_similarity": object_caption(name, photo=shift.photo)}
    if cell.image_source == "real":
        # Styles are not photographs: their object threshold comes from a separate caption.
        captions["plain_similarity"] = object_caption(name, photo=False)
    if shift.name != BASE:
        captions["shift_similarity"] = shift.caption
    return captions


def _cosine(image: Vectors, text: Vectors) -> float:
    require_one_space(image, text)
    return float(cosine(image, text))
