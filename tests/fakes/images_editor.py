"""The editor behind the images API over a suite of its own, and requests for edits of one caption."""

from __future__ import annotations

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, EditVariant
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.images_api import ImagesApi
from fakes.images_server import ImagesServer

CAPTION, EDITED = "a photo of a dog on the grass", "a photo of a dog on the water"


def never() -> bool:
    """No caller has gone."""
    return False


def suite_of(url: str, **preset: object) -> EditorSuite:
    """A suite whose preset ``api`` asks this server."""
    given = {"backend": "images-api", **preset}
    return EditorSuite.model_validate(
        {
            "model": "editor-1",
            "server": url,
            "resolution": 32,
            "default_preset": "api",
            "presets": {"api": given},
        }
    )


def backend(server: ImagesServer, store: BlobStore, **preset: object) -> ImagesApi:
    """The engine over the server."""
    return ImagesApi(server.client(), suite_of(server.url, **preset), store)


def request(image: str, *edited: str, **preset: object) -> EditRequest:
    """Edits of `CAPTION` to each text, or to `EDITED`."""
    items = [EditItem(image=image, caption=CAPTION, edited_caption=text) for text in edited or (EDITED,)]
    return EditRequest(
        items=items, preset=ImagesApiPreset.model_validate({"backend": "images-api", **preset})
    )


def edited(engine: ImagesApi, asked: EditRequest) -> list[EditVariant]:
    """The one variant of each edit."""
    outcomes = engine.edit(asked, cancelled=never).outcomes
    return [outcome.unwrap().variants[0] for outcome in outcomes]
