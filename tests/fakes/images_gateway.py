"""A gateway whose editor asks an images server, the scorer measures preservation, and the rest are fakes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor
from counterpose_core.contract.preservation import Preservation, PreservationItem
from counterpose_core.images.codecs import Pixels, decode_image, encode_png, encode_raw
from counterpose_core.preservation.record import recorded
from counterpose_core.suite import Suite
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.calls import Accounts
from counterpose_gateway.services.clients import services_of
from counterpose_gateway.services.ports import Services
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.settings import ServiceSettings
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_server import Answering, ImagesServer, images_server, obey
from fakes.ports import FakeEditor, FakeScorer, fake_services
from fakes.service_apps import ServiceApps
from fakes.service_http import caller_over
from fakes.suite_servers import images_suite
from fakes.world import CAPTION, CLASSES, FakeWorld, Shown


class ServedEditor(FakeEditor):
    """Asks the editor's deployment, and tells the fakes what its images are meant to show."""

    def __init__(self, world: FakeWorld, deployment: EditorDeployment) -> None:
        super().__init__(world)
        self._deployment = deployment

    async def edit(self, request: editor.EditRequest) -> editor.EditResponse:
        """Edited by the server."""
        self.calls["edit"] += 1
        response = await self._deployment.edit(request)
        for item, outcome in zip(request.items, response.outcomes, strict=True):
            label = self.world.shown[item.image].label
            for made in [] if outcome.value is None else outcome.value.variants:
                self.world.shown[made.image] = Shown(label, item.edited_caption, made.strength)
        return response

    async def generate(self, request: editor.GenerateRequest) -> editor.GenerateResponse:
        """Drawn by the server."""
        self.calls["generate"] += 1
        response = await self._deployment.generate(request)
        for item, outcome in zip(request.items, response.outcomes, strict=True):
            label = next((name for name in CLASSES if name in item.prompt), "")
            if outcome.value is not None:
                self.world.shown[outcome.value.image] = Shown(label, item.prompt)
        return response


class MeasuringScorer(FakeScorer):
    """Measures the pixels, as the scorer's engine does."""

    def __init__(self, world: FakeWorld, store: BlobStore) -> None:
        super().__init__(world)
        self._store = store

    def preserved(self, item: PreservationItem) -> Preservation:
        """What is recorded of the pair, with its map."""
        source, edited = (decode_image(self._store.get(ref)) for ref in (item.original, item.edited))
        found, drawn = recorded(source, edited, control=item.control)
        shown = None if drawn is None else self._store.put(encode_png(drawn))
        return found.model_copy(update={"map": shown})


def accounted(services: Services, accounts: Accounts | None, suite: Suite) -> Services:
    """The services behind their real HTTP applications, called by who keeps the account."""
    apps = ServiceApps(services, ServiceSettings.model_validate({"secret": "a-secret-of-some-length"}))
    return services_of(caller_over(apps.handle_async_request, accounted=Accounted(accounts, suite)))


@asynccontextmanager
async def images_gateway(
    folder: Path, answer: Answering = obey, *, draws: bool = False
) -> AsyncIterator[tuple[FakeGateway, ImagesServer]]:
    """A gateway over such an editor and scorer, and the server; ``draws``: it draws from text, too."""
    store = BlobStore(str(folder / "store"))
    with images_server(answer) as server:
        whole = images_suite(server.url, draws=draws)
        settings = ServiceSettings.model_validate({"store_url": str(folder / "store"), "state_dir": folder})
        deployment = EditorDeployment(settings, ImagesApi(server.client(), whole.editor, store))

        def ports(world: FakeWorld, deployment: EditorDeployment) -> Services:
            scorer = MeasuringScorer(world, store)
            return fake_services(world, editor=ServedEditor(world, deployment), scorer=scorer)

        async with fake_gateway(
            folder, store=store, suite=whole, ports=partial(ports, deployment=deployment)
        ) as gateway:
            planning = accounted(gateway.services, None, whole)
            gateway.app.state.context = replace(gateway.app.state.context, services=planning)
            yield gateway, server


async def upload_images(gateway: FakeGateway, name: str, images: dict[str, list[Pixels]]) -> None:
    """Make a dataset of these images, by class, that the fakes know."""
    await gateway.http.post("/v1/datasets", json={"name": name})
    sources = []
    for label, own in images.items():
        for number, pixels in enumerate(own):
            content = encode_raw(pixels)
            gateway.world.shown[gateway.store.put(content)] = Shown(label, CAPTION.format(label=label))
            encoded = base64.b64encode(content).decode()
            sources.append({"filename": f"{label}-{number}.png", "label": label, "content_base64": encoded})
    answer = await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": sources})
    assert answer.is_success, answer.text
