"""CLIP's similarities of a cell's pictures to the captions of its class and its shift."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.class_prompts import object_caption
from faultline_core.clip_metrics import Vectors, cosine
from faultline_core.contract.shift_benchmarks import PictureResult, ShiftBenchmarkConfig
from faultline_core.shifts import BASE
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems, together
from faultline_gateway.workflows.benchmark_cells import Cell
from faultline_gateway.workflows.benchmark_pictures import Obtained, PictureDraft
from faultline_gateway.workflows.clip_features import (
    embed_pictures,
    embed_texts,
    require_one_space,
    vector_of,
)


async def measure(
    attempt: OpenItems,
    config: ShiftBenchmarkConfig,
    cell: Cell,
    obtained: Sequence[Obtained],
    services: Services,
) -> list[PictureDraft]:
    """Hold each picture against its captions; one that cannot be embedded is recorded and left out.

    Raises:
        BackendError: CLIP failed as a whole, or answered what is no embedding of a caption.
    """
    if not obtained:
        return []
    captions = _captions(config, cell)
    pictures, texts = await together(
        [
            embed_pictures(attempt, [each.image for each in obtained], services),
            embed_texts(attempt, list(captions.values()), services),
        ]
    )
    wanted = dict(zip(captions, map(vector_of, texts), strict=True))
    drafts: list[PictureDraft] = []
    for each, outcome in zip(obtained, pictures, strict=True):
        async with attempt.blaming([each.item]):
            similarities = {field: _cosine(vector_of(outcome), text) for field, text in wanted.items()}
            result = PictureResult(
                image=each.image,
                source=cell.source,
                shift=cell.condition_name(config),
                prompt=each.prompt,
                seed=each.seed,
                token=each.token,
                unsearched=each.unsearched,
                cost=each.cost,
                **similarities,
            )
            drafts.append(PictureDraft(each.item, result))
    return drafts


def _captions(config: ShiftBenchmarkConfig, cell: Cell) -> dict[str, str]:
    """The captions that a picture is held against, by the field that the similarity goes into."""
    shift, name = config.shifts[cell.condition], cell.class_name(config)
    captions = {"object_similarity": object_caption(name, photo=shift.photo)}
    if cell.source == "real":
        # Styles are no photographs: their object threshold comes from a caption of its own.
        captions["plain_similarity"] = object_caption(name, photo=False)
    if shift.name != BASE:
        captions["shift_similarity"] = shift.caption
    return captions


def _cosine(picture: Vectors, text: Vectors) -> float:
    require_one_space(picture, text)
    return float(cosine(picture, text))
