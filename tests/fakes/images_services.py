"""``python -m fakes.images_services STORE PORT PER_CLASS SHOWN``: services that ask a server of images.

The editor is the product's deployment, by the settings of the environment; the others are fakes. All of them
answer through the services' own HTTP applications, which say on each answer what was asked of others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from counterpose_core.blobs import BlobStore
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.settings import ServiceSettings
from fakes.images_gateway import ServedEditor
from fakes.killed_programs import Programs
from fakes.ports import fake_services
from fakes.service_apps import ServiceApps
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld

MODEL = "editor-1"
SUITE = """name = "served"
description = "The miniature suite, but that a server edits"
base = "miniature"

[editor]
server = "$images_server"
model = "$images_model"
resolution = 32
default_preset = "api"

[editor.presets.api]
backend = "images-api"
"""


def images_programs(url: str, folder: Path, server: str, per_class: int) -> Programs:
    """The programs of such a suite, whose services know so many images of each class."""
    folder.mkdir(parents=True, exist_ok=True)
    suite = folder / "served.toml"
    suite.write_text(SUITE, encoding="utf-8")
    return Programs(
        url,
        folder,
        services=__name__,
        world=(str(per_class), str(folder / "shown")),
        more={
            "COUNTERPOSE_SUITE": str(suite),
            "COUNTERPOSE_IMAGES_SERVER": server,
            "COUNTERPOSE_IMAGES_MODEL": MODEL,
        },
    )


def application(settings: ServiceSettings, per_class: int, shown: Path) -> Starlette:
    """The services as one application; each is under its name."""
    world = FakeWorld(store=SharedStore(BlobStore(settings.store_url)), shown=KeptShown(shown))
    world.sources(per_class)
    services = fake_services(world, editor=ServedEditor(world, EditorDeployment(settings)))
    apps = ServiceApps(services, settings).apps
    return Starlette(routes=[Mount(f"/{name}", app=app) for name, app in apps.items()])


def main(store: str, port: str, per_class: str, shown: str) -> None:
    """Serve until killed."""
    settings = ServiceSettings.model_validate({"store_url": store})
    served = application(settings, int(per_class), Path(shown))
    uvicorn.run(served, host="127.0.0.1", port=int(port), access_log=False, log_config=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
