"""Pictures that a class is looked at by while its token is made: drawn, and embedded by CLIP."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.clip_metrics import Vectors, unit
from faultline_core.contract.base import MAX_BATCH
from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.contract.scorer import EmbedImagesRequest
from faultline_core.errors import BadBackendOutput, NumericalFailure
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems, borne_alone
from faultline_gateway.workflows.token_chain import Pupil


async def draw(
    attempt: OpenItems,
    config: DatasetInterfaceConfig,
    pupil: Pupil,
    items: Sequence[GenerateItem],
    services: Services,
) -> list[BlobRef]:
    """Draw pictures as the suite does; what they took is the class's.

    Raises:
        BackendError: a picture could not be made.
    """
    request = GenerateRequest(items=list(items), **config.generation.model_dump(exclude_none=True))
    response = await attempt.call("editor", services.editor.generate, request)
    made = [outcome.unwrap() for outcome in attempt.outcomes("editor", response, len(items))]
    attempt.share(response.cost, [each.cost for each in made])
    pupil.cost = sum((borne_alone(each.cost) for each in made), pupil.cost)
    return [each.image for each in made]


async def embed(attempt: OpenItems, images: Sequence[BlobRef], services: Services) -> Vectors:
    """Return CLIP's unit features (n, d) of pictures.

    Raises:
        BackendError: a picture has none, or what was answered is no embedding.
    """
    vectors: list[list[float]] = []
    for start in range(0, len(images), MAX_BATCH):
        request = EmbedImagesRequest(images=list(images[start : start + MAX_BATCH]))
        response = await attempt.call("scorer", services.scorer.embed_images, request)
        attempt.share(response.cost)
        outcomes = attempt.outcomes("scorer", response, len(request.images))
        vectors += [outcome.unwrap().vector for outcome in outcomes]
    return features(vectors)


def features(vectors: Sequence[Sequence[float]]) -> Vectors:
    """Scale what CLIP answered to unit length (n, d).

    Raises:
        BadBackendOutput: it is ragged, zero or not finite, and may be asked for again.
    """
    try:
        return unit(vectors)
    except (NumericalFailure, ValueError) as error:
        raise BadBackendOutput(f"CLIP's embeddings: {error}") from error
