"""A bad image is refused with its code and not stored, and the other images are accepted."""

from __future__ import annotations

import base64
import uuid

import numpy as np
import pytest
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import error_classes
from counterpose_core.images.codecs import decode_image, encode_png, encode_raw
from counterpose_core.images.packing import PackedImage
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.images.intake import take_in
from fakes.bad_files import BAD, IMAGE, saved
from fakes.gateway import FakeGateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


class NotedStore(BlobStore):
    """A store in memory that records what was put into it."""

    def __init__(self) -> None:
        super().__init__(f"memory://{uuid.uuid4().hex}")
        self.blobs: set[bytes] = set()

    def put(self, data: bytes) -> str:
        """Store and record ``data``."""
        self.blobs.add(data)
        return super().put(data)

    def put_packed(self, image: PackedImage) -> None:
        """Store and record the raw form."""
        super().put_packed(image)
        self.blobs.add(self.get(image.ref))


def upload(content: bytes | str, **changes: str) -> dict[str, str]:
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {"filename": "a.png", "label": "sled", "content_base64": text} | changes


@pytest.mark.fault("B3", "B4", "B6", "B10", "B11")
@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_file_is_reported_with_its_code_and_not_stored(kind: str) -> None:
    content, code = BAD[kind]
    store = NotedStore()
    source = RawSource(filename="bad.png", label="sled", caption=None, content=content)
    taken, rejected = take_in([source], store, None)
    assert [(one.filename, one.code) for one in rejected] == [("bad.png", code)]
    assert rejected[0].detail
    assert (taken, store.blobs) == ([], set())


@pytest.mark.fault("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "B12")
async def test_an_upload_with_every_bad_kind_accepts_the_one_good_image(
    gateway: FakeGateway, name: str
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name})
    bad = [upload(content, filename=f"{number}.png") for number, (content, _) in enumerate(BAD.values())]
    body = {"sources": [*bad[:10], upload(IMAGE, filename="good.png"), *bad[10:]]}
    answer = await gateway.http.post(f"/v1/datasets/{name}/sources", json=body)
    added = answer.json()
    assert (answer.status_code, added["added"]) == (200, 1)
    assert [one["code"] for one in added["rejected"]] == [code for _, code in BAD.values()]
    numbers = [number for number in range(len(BAD) + 1) if number != 10]
    pointers = [one["pointer"] for one in added["rejected"]]
    assert pointers == [f"/sources/{number}/content_base64" for number in numbers]
    assert {code for _, code in BAD.values()} <= set(error_classes())
    [source] = gateway.ledger.datasets.sources(name)
    assert source.filename == "good.png"


BAD_NAMES = (
    "a\nb.png", "../../etc/passwd", "sled/../../passwd", "/etc/passwd", "..\\..\\boot.ini",
    "\\\\server\\share\\a.png", "C:\\a.png",
)  # fmt: skip


@pytest.mark.fault("B3", "B40", "B41")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        (upload(IMAGE, label="moon"), "class-map-mismatch"),
        (upload(IMAGE, label="Sled"), "class-map-mismatch"),
        (upload(IMAGE, label="sled "), "class-map-mismatch"),
        (upload(IMAGE, label="sled\x00"), "invalid-request"),
        (upload(IMAGE, caption="a \u202esled"), "invalid-request"),
        (upload(IMAGE, caption="a sl\u200bed"), "invalid-request"),
        *((upload(IMAGE, filename=name), "invalid-request") for name in BAD_NAMES),
    ],
)
async def test_a_bad_source_does_not_affect_others(
    gateway: FakeGateway, name: str, source: dict[str, str], code: str
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name, "classes": ["sled", "boat"]})
    sources = [upload(IMAGE, filename="good.png"), source]
    answer = await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": sources})
    added = answer.json()
    assert (answer.status_code, added["added"]) == (200, 1)
    assert [rejected["code"] for rejected in added["rejected"]] == [code]
    assert (await gateway.http.get(f"/v1/datasets/{name}")).json()["n_sources"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"filename": "x" * 256},
        {"label": "x" * 201},
        {"caption": "x" * 2001},
    ],
)
async def test_text_limits_are_the_same_for_folders_and_uploads(changes: dict[str, str]) -> None:
    fields = {"filename": "a.png", "label": "sled", "caption": "a sled"} | changes
    taken, rejected = take_in(
        [
            RawSource(
                filename=fields["filename"], label=fields["label"], caption=fields["caption"], content=IMAGE
            )
        ],
        NotedStore(),
        None,
    )
    assert (taken, [one.code for one in rejected]) == ([], ["invalid-request"])
    assert len(rejected[0].detail) < 200


@pytest.mark.fault("B38")
@pytest.mark.parametrize(
    "source",
    [
        {"filename": "a.png", "label": "sled"},
        upload(IMAGE, url="http://169.254.169.254/"),
        upload(IMAGE, label=""),
        upload(IMAGE, label="x" * 201),
        upload(IMAGE, filename="x" * 256),
        upload(IMAGE, filename=""),
        upload(IMAGE, caption="x" * 2001),
        upload(IMAGE) | {"label": 3},
        upload(IMAGE) | {"content_base64": None},
    ],
)
async def test_a_malformed_upload_adds_nothing(
    gateway: FakeGateway, name: str, source: dict[str, str]
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name})
    body = {"sources": [upload(IMAGE), source]}
    found = problem(
        await gateway.http.post(f"/v1/datasets/{name}/sources", json=body), 422, "invalid-request"
    )
    assert found.errors[0].pointer.startswith("/sources/1")
    assert (await gateway.http.get(f"/v1/datasets/{name}")).json()["n_sources"] == 0


async def test_a_request_with_too_many_images_is_refused_as_a_whole(gateway: FakeGateway, name: str) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name})
    body = {"sources": [upload(IMAGE, filename=f"{number}.png") for number in range(65)]}
    problem(await gateway.http.post(f"/v1/datasets/{name}/sources", json=body), 422, "invalid-request")
    problem(
        await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": []}), 422, "invalid-request"
    )
    assert gateway.ledger.datasets.sources(name) == []


@pytest.mark.fault("B41")
@pytest.mark.parametrize(
    "wanted",
    [
        "../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "a\\b", "a%2fb", "file:///etc/passwd", "a#b",
        "a b", "", "x" * 97, "demo\x00", "demo\n", "d\u00e9mo", "\uff0fetc", "-rf", "C:demo",
    ],
)  # fmt: skip
async def test_a_path_as_a_dataset_name_is_refused_and_not_stored(gateway: FakeGateway, wanted: str) -> None:
    before = gateway.ledger.datasets.all()
    found = problem(await gateway.http.post("/v1/datasets", json={"name": wanted}), 422, "invalid-request")
    assert found.errors[0].pointer == "/name"
    assert gateway.ledger.datasets.all() == before


@pytest.mark.fault("B40")
@pytest.mark.parametrize(
    "classes",
    [[], ["sled", "sled"], ["Sled", "sled"], ["sled", ""], ["sled", " boat"], ["sl\x00ed"], ["x" * 201]],
)
async def test_confusable_or_invisible_classes_are_refused_and_not_stored(
    gateway: FakeGateway, name: str, classes: list[str]
) -> None:
    answer = await gateway.http.post("/v1/datasets", json={"name": name, "classes": classes})
    assert problem(answer, 422, "class-map-mismatch").errors[0].pointer == "/classes"
    problem(await gateway.http.get(f"/v1/datasets/{name}"), 404, "unknown-dataset")


async def test_an_invalid_list_of_classes_is_refused(gateway: FakeGateway, name: str) -> None:
    for classes in ("sled", {"0": "sled"}, [1], ["sled"] * 10_001):
        answer = await gateway.http.post("/v1/datasets", json={"name": name, "classes": classes})
        problem(answer, 422, "invalid-request")


@pytest.mark.fault("B11")
@pytest.mark.parametrize(
    ("filename", "format"),
    [("a.png", "JPEG"), ("a.jpg", "WEBP"), ("a.webp", "PNG"), ("a", "PNG"), ("é猫.png", "PNG")],
)
async def test_the_bytes_determine_the_format_not_the_file_name(
    gateway: FakeGateway, name: str, filename: str, format: str
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name})
    body = {"sources": [upload(saved(format), filename=filename)]}
    added = (await gateway.http.post(f"/v1/datasets/{name}/sources", json=body)).json()
    assert added == {"added": 1, "rejected": []}


@pytest.mark.fault("B24")
async def test_duplicates_in_an_upload_are_sources_but_resending_adds_none(
    gateway: FakeGateway, name: str
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": name})
    body = {"sources": [upload(IMAGE, filename=file) for file in ("a.png", "b.png", "a.png")]}
    for expected in (3, 0):
        added = (await gateway.http.post(f"/v1/datasets/{name}/sources", json=body)).json()
        assert added == {"added": expected, "rejected": []}
    assert len({source.id for source in gateway.ledger.datasets.sources(name)}) == 3


async def test_the_location_of_an_image_is_not_stored(gateway: FakeGateway, name: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "a camera in a secret place"
    await gateway.http.post("/v1/datasets", json={"name": name})
    body = {"sources": [upload(saved("JPEG", exif=exif))]}
    await gateway.http.post(f"/v1/datasets/{name}/sources", json=body)
    assert b"secret place" not in gateway.store.get(gateway.ledger.datasets.sources(name)[0].image)


@pytest.mark.fault("B12")
async def test_data_after_the_end_of_an_image_is_not_stored() -> None:
    store = NotedStore()
    for number, rest in enumerate((b"\0" * 100, b"\0\0\0\x18ftypmp42 a film of the same moment")):
        source = RawSource(filename=f"{number}.png", label="sled", caption=None, content=IMAGE + rest)
        taken, _ = take_in([source], store, None)
        assert len(taken) == 1
    [stored] = store.blobs
    assert stored == encode_raw(decode_image(IMAGE))


async def test_equal_pixels_from_different_files_share_a_blob() -> None:
    store = NotedStore()
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for number, content in enumerate((IMAGE, encode_png(pixels, text={"a": "b"}), encode_raw(pixels))):
        take_in([RawSource(filename=f"{number}", label="sled", caption=None, content=content)], store, None)
    assert len(store.blobs) == 1
