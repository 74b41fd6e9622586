"""The gateway that a validation uses, its own or one that is already running, and the services behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpose import Client
from counterpose._stack import Stack, ended_by_signals
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.editor import GenerateRequest, GenerateResponse
from counterpose_core.contract.scorer import EmbedImagesRequest
from counterpose_core.images.codecs import decode_image
from counterpose_core.types import BlobRef
from counterpose_gateway.services.clients import HttpEditor, HttpScorer, calling_services
from counterpose_gateway.settings import GatewaySettings, settings_from

from .truth import Images

STACK = "stack"
"""The state folder of a validation's own stack, below the validation's."""
MODELS_FOLDER = "COUNTERPOSE_SERVICES_MODELS_FOLDER"
PORT = 8180
"""Another port than that of `make up`, so that both can run; the services take the next one."""


@dataclass(frozen=True)
class ModelsStack(Stack):
    """A stack whose services load further classifiers from a folder."""

    models: Path = Path()

    def environment(self) -> dict[str, str]:
        """The environment variables of every process of the stack."""
        return super().environment() | {MODELS_FOLDER: str(self.models.absolute())}


class Service:
    """A gateway, started when it is first needed and stopped at the end."""

    def __init__(self, state: Path, models: Path, url: str | None = None, port: int = PORT) -> None:
        self._stack = ModelsStack(state=state, port=port, services_port=port + 1, models=models)
        self._url = url
        self._client: Client | None = None

    def client(self) -> Client:
        """A client of a gateway that answers.

        Raises:
            SystemExit: another gateway answers on the port.
        """
        if self._client is None:
            if self._url is None:
                self._stack.up()
                if not self._stack.running():
                    raise SystemExit(f"another gateway answers at {self._stack.url}: choose a --port")
            self._client = Client(self._url or self._stack.url)
        return self._client

    @property
    def is_ours(self) -> bool:
        """Whether the validation started the stack: it cannot reach the editor behind another gateway."""
        return self._url is None

    @property
    def settings(self) -> GatewaySettings:
        """The settings of the gateway's processes, for calls to the services and the store behind it."""
        return settings_from(self._stack.environment())

    def draw(self, request: GenerateRequest) -> Images:
        """Images of the editor's text-to-image, uint8 [N, H, W, 3], in the request's order.

        Raises:
            CounterposeError: the editor refuses the request or one of its prompts.
        """
        self.client()
        store = BlobStore(self.settings.store_url)
        answer = asyncio.run(_generated(self.settings, request))
        return np.stack([decode_image(store.get(one.unwrap().image)) for one in answer.outcomes])

    def features(self, images: Sequence[BlobRef]) -> NDArray[np.float64]:
        """CLIP features (n, d) of images that the stack has stored, from its scorer."""
        self.client()
        return asyncio.run(_embedded(self.settings, images))

    def close(self) -> None:
        """Stop the stack, including processes left by a killed attempt of this validation."""
        if self._client is None:
            self._stack.stop_started()
            return
        self._client.close()
        if self._url is None:
            self._stack.down()


async def _generated(settings: GatewaySettings, request: GenerateRequest) -> GenerateResponse:
    async with calling_services(settings) as caller:
        return await HttpEditor(caller).generate(request)


async def _embedded(settings: GatewaySettings, images: Sequence[BlobRef]) -> NDArray[np.float64]:
    found: list[list[float]] = []
    async with calling_services(settings) as caller:
        for start in range(0, len(images), MAX_BATCH):
            request = EmbedImagesRequest(images=list(images[start : start + MAX_BATCH]))
            answer = await HttpScorer(caller).embed_images(request)
            found += [outcome.unwrap().vector for outcome in answer.outcomes]
    return np.array(found)


@contextmanager
def serving(state: Path, models: Path, url: str | None = None, port: int = PORT) -> Iterator[Service]:
    """Yield a service for the time of a validation; with a ``url``, one that is already running."""
    service = Service(state, models, url, port)
    with ended_by_signals():
        try:
            yield service
        finally:
            service.close()
