"""Pictures that a class is looked at by while its token is made: drawn, and embedded by CLIP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from faultline_core.clip_metrics import Vectors
from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_core.contract.editor import GenerateItem
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems, borne_alone
from faultline_gateway.workflows.clip_features import embed_pictures, require_one_space, vector_of
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
    response = await attempt.call("editor", services.editor.generate, config.generation.request(items))
    made = [outcome.unwrap() for outcome in attempt.outcomes("editor", response, len(items))]
    attempt.share(response.cost, [each.cost for each in made])
    pupil.cost = sum((borne_alone(each.cost) for each in made), pupil.cost)
    return [each.image for each in made]


async def embed(attempt: OpenItems, images: Sequence[BlobRef], services: Services) -> Vectors:
    """Return CLIP's unit features (n, d) of pictures.

    Raises:
        BackendError: a picture has none, or what was answered is no embedding.
    """
    vectors = [vector_of(outcome) for outcome in await embed_pictures(attempt, images, services)]
    require_one_space(*vectors)
    return np.stack(vectors)
