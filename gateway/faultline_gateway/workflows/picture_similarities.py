"""CLIP's similarities of a cell's pictures to the captions of its class and its shift."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.class_prompts import object_caption
from faultline_core.clip_metrics import Vectors, cosine, unit
from faultline_core.contract.base import Outcome
from faultline_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedTextsRequest
from faultline_core.contract.shift_benchmarks import PictureResult, ShiftBenchmarkConfig
from faultline_core.errors import BadBackendOutput, NumericalFailure
from faultline_core.shifts import BASE
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems, together
from faultline_gateway.workflows.benchmark_cells import Cell
from faultline_gateway.workflows.benchmark_pictures import Obtained, PictureDraft


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
            _pictures(attempt, [each.image for each in obtained], services),
            _texts(attempt, list(captions.values()), services),
        ]
    )
    wanted = dict(zip(captions, map(_vector, texts), strict=True))
    drafts: list[PictureDraft] = []
    for each, outcome in zip(obtained, pictures, strict=True):
        async with attempt.blaming([each.item]):
            similarities = {field: _cosine(_vector(outcome), text) for field, text in wanted.items()}
            result = PictureResult(
                image=each.image,
                source=cell.source,
                shift=cell.condition_name(config),
                prompt=each.prompt,
                seed=each.seed,
                token=each.token,
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


async def _pictures(attempt: OpenItems, images: list[str], services: Services) -> list[Outcome[Embedding]]:
    request = EmbedImagesRequest(images=images)
    response = await attempt.call("scorer", services.scorer.embed_images, request)
    attempt.share(response.cost)
    return attempt.outcomes("scorer", response, len(images))


async def _texts(attempt: OpenItems, texts: list[str], services: Services) -> list[Outcome[Embedding]]:
    request = EmbedTextsRequest(texts=texts, encoder="clip")
    response = await attempt.call("scorer", services.scorer.embed_texts, request)
    attempt.share(response.cost)
    return attempt.outcomes("scorer", response, len(texts))


def _vector(outcome: Outcome[Embedding]) -> Vectors:
    try:
        return unit(outcome.unwrap().vector)
    except NumericalFailure as error:
        # NaN, infinity or zeros come from the service: it may be asked again.
        raise BadBackendOutput(f"CLIP's embedding of a picture or caption: {error.detail}") from error


def _cosine(picture: Vectors, text: Vectors) -> float:
    if picture.shape != text.shape:
        raise BadBackendOutput("CLIP embeds pictures and texts in spaces of different size")
    return float(cosine(picture, text))
