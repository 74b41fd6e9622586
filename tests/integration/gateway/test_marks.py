"""The synthetic-media mark: in every generated image, in no pixel, and never in a user's image."""

from __future__ import annotations

import base64
import io
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, PngImagePlugin

from counterpose_core.contract.editor import GENERATED_KIND
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.images.codecs import XMP_KEYWORD, decode_image, encode_png, encode_raw
from counterpose_gateway.images.png import (
    DIGITAL_SOURCE_TYPE,
    GENERATED_SOURCE_TYPE,
    NAMESPACE,
    synthetic_marks,
    synthetic_xmp,
)
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.reports.images import LONGEST_SIDE, Album
from fakes.gateway import FakeGateway, fake_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

IPTC = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1}  # fmt: skip
PIXELS = np.random.default_rng(0).integers(0, 256, (24, 16, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Finished:
    """A gateway with a run that has ended, and what it made."""

    gateway: FakeGateway
    run: str
    made: list[tuple[Item, ItemResult]]
    report: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Finished]:
    """One run for all tests, which only read it."""
    async with fake_gateway(tmp_path_factory.mktemp("finished")) as gateway:
        await gateway.upload("demo", 1)
        run = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
        await gateway.worker().work_off()
        items = gateway.ledger.items.all(run)
        made = [(item, item.result) for item in items if item.result is not None]
        report = await gateway.http.get(f"/v1/runs/{run}/report")
        yield Finished(gateway, run, made, report.text)


def notes(content: bytes) -> dict[str, str]:
    """The metadata of a PNG, as Pillow reads it, not our own reader."""
    with Image.open(io.BytesIO(content)) as image:
        assert isinstance(image, PngImagePlugin.PngImageFile)
        return {str(key): str(value) for key, value in image.text.items()}


def source_type(content: bytes) -> str | None:
    """The IPTC source type in an image's XMP, read as XML."""
    return described(notes(content).get(XMP_KEYWORD)).get(IPTC)


def described(packet: str | None) -> dict[str, str]:
    """The fields of an XMP packet; empty without one."""
    if packet is None:
        return {}
    description = ET.fromstring(packet).find(f"{RDF}RDF/{RDF}Description")
    assert description is not None
    return dict(description.attrib)


def fields(content: bytes) -> dict[str, str]:
    """What an image of a report says of itself, as Pillow finds it."""
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "WEBP"
        packet = image.info.get("xmp")
    return described(packet.decode() if packet else None)


def inlined(report: str) -> list[bytes]:
    """Every image of a report."""
    start = "data:image/webp;base64,"
    return [base64.b64decode(part.split('"')[0]) for part in report.split(start)[1:]]


async def artifact(finished: Finished, ref: str) -> bytes:
    answer = await finished.gateway.http.get(f"/v1/artifacts/{ref}.png")
    assert answer.status_code == 200
    return answer.content


@pytest.mark.fault("T20")
async def test_every_generated_image_of_a_run_is_served_with_a_mark(finished: Finished) -> None:
    assert {item.kind for item, _ in finished.made} == {"edit", "placebo", "reconstruction", "lance-r"}
    for _, result in finished.made:
        content = await artifact(finished, result.image)
        assert notes(content)["synthetic"] == "true"
        assert notes(content)["artifact"] == result.image
        assert source_type(content) == DIGITAL_SOURCE_TYPE


@pytest.mark.fault("T20")
async def test_served_pixels_are_the_scored_pixels(finished: Finished) -> None:
    for _, result in finished.made:
        scored = decode_image(finished.gateway.store.get(result.image))
        np.testing.assert_array_equal(decode_image(await artifact(finished, result.image)), scored)


async def test_the_store_keeps_the_scored_bytes_unmarked(finished: Finished) -> None:
    for _, result in finished.made:
        assert b"synthetic" not in finished.gateway.store.get(result.image)


async def test_a_user_s_images_are_served_unmarked(finished: Finished) -> None:
    for source in finished.gateway.ledger.datasets.sources("demo"):
        content = await artifact(finished, source.image)
        assert notes(content) == {}


def traced_in(finished: Finished) -> set[tuple[str, ...]]:
    """What the marks of a report's images say: synthetic, run, item and artifact."""
    return {
        tuple(marks[f"{{{NAMESPACE}}}{name}"] for name in ("synthetic", "run", "item", "artifact"))
        for one in inlined(finished.report)
        if (marks := fields(one))
    }


def controls_in(finished: Finished) -> set[str]:
    """The controls in a report: that of the first screen, beside its original and its edit."""
    placebos = {result.image for item, result in finished.made if item.kind == "placebo"}
    return placebos & {artifact for *_, artifact in traced_in(finished)}


async def test_the_report_marks_edits_but_not_originals(finished: Finished) -> None:
    edits = {result.image for item, result in finished.made if item.kind == "edit"}
    [control] = controls_in(finished)
    sources = {source.image for source in finished.gateway.ledger.datasets.sources("demo")}
    pixels = {
        ref: decode_image(finished.gateway.store.get(ref)).tobytes() for ref in sources | edits | {control}
    }  # every one of them is smaller than the report shows, so none was scaled
    marked = {decode_image(one).tobytes() for one in inlined(finished.report) if IPTC in fields(one)}
    plain = {decode_image(one).tobytes() for one in inlined(finished.report) if not fields(one)}
    assert marked == {pixels[ref] for ref in edits | {control}}
    assert plain == {pixels[ref] for ref in sources}


async def test_an_image_in_a_report_can_be_traced_to_its_run_item_and_artifact(finished: Finished) -> None:
    [control] = controls_in(finished)
    assert traced_in(finished) == {
        ("true", finished.run, item.id, result.image)
        for item, result in finished.made
        if item.kind == "edit" or result.image == control
    }


async def test_a_report_embeds_each_image_once(finished: Finished) -> None:
    images = inlined(finished.report)
    assert len(set(images)) == len(images)


async def test_an_edit_is_marked_with_iptc_s_term_for_composites() -> None:
    assert DIGITAL_SOURCE_TYPE.rsplit("/", 1)[1] == "compositeWithTrainedAlgorithmicMedia"
    assert source_type(encode_png(PIXELS, text=synthetic_marks())) == DIGITAL_SOURCE_TYPE


async def test_a_generated_image_is_not_marked_as_a_composite() -> None:
    assert GENERATED_SOURCE_TYPE.rsplit("/", 1)[1] == "trainedAlgorithmicMedia"
    marked = encode_png(PIXELS, text=synthetic_marks(GENERATED_SOURCE_TYPE))
    assert source_type(marked) == GENERATED_SOURCE_TYPE
    assert notes(marked)["synthetic"] == "true"


@pytest.mark.fault("T20")
async def test_marking_does_not_change_pixels() -> None:
    marked = encode_png(PIXELS, text=synthetic_marks(artifact="a" * 64))
    np.testing.assert_array_equal(decode_image(marked), PIXELS)
    with Image.open(io.BytesIO(marked)) as image:
        np.testing.assert_array_equal(np.asarray(image), PIXELS)


async def test_provenance_fields_cannot_override_the_mark() -> None:
    marks = synthetic_marks(**{"counterpose-run": "r", XMP_KEYWORD: "<x/>"})
    assert source_type(encode_png(PIXELS, text=marks)) == DIGITAL_SOURCE_TYPE


async def test_an_image_scaled_for_the_report_keeps_its_mark() -> None:
    large = np.zeros((2 * LONGEST_SIDE, 2 * LONGEST_SIDE, 3), np.uint8)
    made = Album(lambda ref: encode_raw(large)).generated("a", run="r", item="i")
    assert made is not None
    content = base64.b64decode(made.uri.partition(",")[2])
    assert decode_image(content).shape == (LONGEST_SIDE, LONGEST_SIDE, 3)
    assert fields(content)[IPTC] == DIGITAL_SOURCE_TYPE


async def test_fields_of_an_xmp_packet_are_escaped() -> None:
    found = described(synthetic_xmp(run='"/><evil', item="a&b"))
    assert (found[f"{{{NAMESPACE}}}run"], found[f"{{{NAMESPACE}}}item"]) == ('"/><evil', "a&b")


async def test_a_generated_image_is_marked_differently_from_an_edit(finished: Finished) -> None:
    _, edit = finished.made[0]
    store = finished.gateway.store
    drawn = store.put(encode_raw(np.flip(PIXELS, axis=0)))
    store.remember(GENERATED_KIND, drawn, drawn)
    finished.gateway.ledger.of(DEFAULT_TENANT).blobs.keep({drawn: 1})
    for ref, source_type in ((drawn, GENERATED_SOURCE_TYPE), (edit.image, DIGITAL_SOURCE_TYPE)):
        answer = await finished.gateway.http.get(f"/v1/artifacts/{ref}.png")
        assert source_type in notes(answer.content)[XMP_KEYWORD].split('"')
