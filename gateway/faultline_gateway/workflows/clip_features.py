"""CLIP's features of pictures and texts, as a workflow asks for them: a bad one fails alone."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.clip_metrics import Vectors, unit
from faultline_core.contract.base import MAX_BATCH, Outcome
from faultline_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedTextsRequest
from faultline_core.errors import BadBackendOutput, NumericalFailure
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems


async def embed_pictures(
    attempt: OpenItems, images: Sequence[BlobRef], services: Services
) -> list[Outcome[Embedding]]:
    """Ask for each picture's features, in as many calls as it takes.

    Raises:
        BackendError: a call failed as a whole.
    """
    found: list[Outcome[Embedding]] = []
    for start in range(0, len(images), MAX_BATCH):
        request = EmbedImagesRequest(images=list(images[start : start + MAX_BATCH]))
        response = await attempt.call("scorer", services.scorer.embed_images, request)
        attempt.share(response.cost)
        found += attempt.outcomes("scorer", response, len(request.images))
    return found


async def embed_texts(
    attempt: OpenItems, texts: Sequence[str], services: Services
) -> list[Outcome[Embedding]]:
    """Ask for each text's features, in one call.

    Raises:
        BackendError: the call failed as a whole.
    """
    request = EmbedTextsRequest(texts=list(texts), encoder="clip")
    response = await attempt.call("scorer", services.scorer.embed_texts, request)
    attempt.share(response.cost)
    return attempt.outcomes("scorer", response, len(texts))


def vector_of(outcome: Outcome[Embedding]) -> Vectors:
    """Return the features (d,) of one outcome at unit length.

    Raises:
        FaultlineError: what its problem names.
        BadBackendOutput: they are zero or not finite.
    """
    try:
        return unit(outcome.unwrap().vector)
    except NumericalFailure as error:
        # NaN, infinity or zeros come from the service, not from our arithmetic: it may be asked again.
        raise BadBackendOutput(f"CLIP's embedding of a picture or text: {error.detail}") from error


def require_one_space(*vectors: Vectors) -> None:
    """Refuse features that cannot be compared.

    Raises:
        BadBackendOutput: they differ in size.
    """
    if len({vector.shape[-1] for vector in vectors}) > 1:
        raise BadBackendOutput("CLIP embeds pictures and texts in spaces of different size")
