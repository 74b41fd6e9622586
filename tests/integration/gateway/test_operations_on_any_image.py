"""Photographs as people have them, through a stress test of operations whose images are really made."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.errors import CounterposeError
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import load_suite
from counterpose_core.transforms.table import operation
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import FakeWorld

SUITE = load_suite("photographs")
LEVELS = {"light": 190, "dark": 70}
"""The brightness of each class's photographs."""

Draw = Callable[[Image.Image], bytes]


class SeesBrightness(FakeClassifiers):
    """Makes each image of its recipe, as classifiers do, and calls it light or dark by its mean."""

    def __init__(self, world: FakeWorld, store: BlobStore) -> None:
        super().__init__(world, tuple(LEVELS))
        self.store = store

    def _answer(self, request: ClassifyRequest, image: str) -> Outcome[Prediction]:
        try:
            mean = shown_image(image, self.store.get).mean() / 255.0
        except CounterposeError as error:
            return Outcome(problem=Problem.of(error))
        light = float(np.clip(mean, 0.01, 0.99))
        probabilities = [light if name == "light" else 1.0 - light for name in request.classes]
        return Outcome(value=Prediction(probabilities=probabilities, top=[0, 1]))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    store = BlobStore(f"memory://{tmp_path}/images")

    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=SeesBrightness(world, store))

    async with fake_gateway(tmp_path, suite=SUITE, store=store, ports=ports) as made:
        yield made


def photograph(label: str, number: int, width: int, height: int) -> Image.Image:
    """A gradient around the brightness of its class, with a band that is another in each photograph."""
    across = np.linspace(-30, 30, width)[None, :].repeat(height, axis=0)
    pixels = np.stack([across + LEVELS[label] + shift for shift in (-4, 0, 4)], axis=2)
    pixels[number::7] += 12
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def written(format: str, mode: str, **options: Any) -> Draw:
    def draw(image: Image.Image) -> bytes:
        buffer = io.BytesIO()
        (image if image.mode == mode else image.convert(mode)).save(buffer, format, **options)
        return buffer.getvalue()

    return draw


def sixteen_bits(image: Image.Image) -> bytes:
    levels = np.asarray(image.convert("L")).astype(np.uint16) * 257
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, "PNG")
    return buffer.getvalue()


def held_upright(image: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return written("JPEG", "RGB", exif=exif)(image)


FORMS: dict[str, tuple[int, int, Draw]] = {
    "greyscale": (130, 100, written("PNG", "L")),
    "grey with alpha": (130, 100, written("PNG", "LA")),
    "alpha": (130, 100, written("PNG", "RGBA")),
    "palette": (130, 100, written("PNG", "P")),
    "one bit": (130, 100, written("PNG", "1")),
    "CMYK": (130, 100, written("JPEG", "CMYK")),
    "16 bits": (130, 100, sixteen_bits),
    "EXIF-rotated": (130, 100, held_upright),
    "progressive": (700, 500, written("JPEG", "RGB", progressive=True)),
    "WebP": (130, 100, written("WEBP", "RGB")),
    "panorama": (2000, 100, written("JPEG", "RGB")),
    "panorama on its side": (100, 2000, written("JPEG", "RGB")),
    "32 x 32": (32, 32, written("PNG", "RGB")),
}


async def uploaded(gateway: FakeGateway, files: list[tuple[str, str, bytes]]) -> dict[str, Any]:
    await gateway.http.post("/v1/datasets", json={"name": "own"})
    sources = [
        {"filename": name, "label": label, "content_base64": base64.b64encode(content).decode()}
        for name, label, content in files
    ]
    answer = await gateway.http.post("/v1/datasets/own/sources", json={"sources": sources})
    assert answer.status_code == 200, answer.text
    added: dict[str, Any] = answer.json()
    return added


async def finished(gateway: FakeGateway, **transforms: Any) -> StressTestSummary:
    body = {"dataset": "own", "classifiers": ["steady"], "seed": 3, "transforms": transforms}
    summary = await gateway.stress_test(body)
    report = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
    assert report.status_code == 200, report.text
    return summary


async def transformed(gateway: FakeGateway, **transforms: Any) -> TransformSummary:
    summary = await finished(gateway, **transforms)
    assert summary.transforms is not None
    return summary.transforms


@pytest.mark.parametrize("form", FORMS)
async def test_every_operation_is_carried_out_on_any_form_of_image_or_left_out_by_name(
    gateway: FakeGateway, form: str
) -> None:
    width, height, draw = FORMS[form]
    files = [
        (f"{label}-{number}", label, draw(photograph(label, number, width, height)))
        for label in LEVELS
        for number in range(2)
    ]
    assert (await uploaded(gateway, files))["added"] == 4
    told = await transformed(gateway, levels=[5])
    assert told.images == 4
    assert told.controls["steady"].estimate == 1.0
    assert told.placebos["steady"].estimate == 0.0
    own = set(SUITE.transforms.operations if SUITE.transforms else ())
    masked = {name for name in told.left_out if operation(name).needs_mask}
    assert masked == {"background-grey", "occlusion-object"}
    carried_out = {figure.operation: figure.images for figure in told.figures}
    assert carried_out.keys() | told.left_out.keys() == own
    assert not carried_out.keys() & told.left_out.keys()
    assert set(carried_out.values()) == {4}
    short = round(min(width, height) * min(1.0, 512 / max(width, height)))
    small = {name: why for name, why in told.left_out.items() if name not in masked}
    for why in small.values():
        found = re.search(r"at least (\d+) pixels on each side; this one has (\d+) x (\d+)", why)
        assert found is not None, why
        least, *sides = map(int, found.groups())
        assert min(sides) == short < least
    assert bool(small) == (short < 96)


async def test_an_image_one_pixel_wide_is_refused_by_name_and_the_others_are_taken(
    gateway: FakeGateway,
) -> None:
    png = written("PNG", "RGB")
    files = [("thin.png", "dark", png(photograph("dark", 0, 1, 300)))]
    files += [(f"{label}.png", label, png(photograph(label, 1, 96, 96))) for label in LEVELS]
    added = await uploaded(gateway, files)
    assert added["added"] == 2
    (refused,) = added["rejected"]
    assert (refused["filename"], refused["code"]) == ("thin.png", "invalid-request")
    assert refused["detail"] == "'thin.png' has 1 x 300 pixels, too few to show anything"


async def test_of_three_images_nothing_is_decided_and_the_estimate_says_how_many_would(
    gateway: FakeGateway,
) -> None:
    png = written("PNG", "RGB")
    labels = ["dark", "dark", "light"]
    await uploaded(
        gateway, [(f"{n}.png", label, png(photograph(label, n, 96, 96))) for n, label in enumerate(labels)]
    )
    body = {"dataset": "own", "classifiers": ["steady"], "seed": 3}
    estimate = (await gateway.http.post("/v1/stress-tests/estimate", json=body)).json()
    assert (estimate["images"], estimate["least_pairs"]) == (3, 11)
    summary = await finished(gateway)
    assert summary.transforms is not None
    assert {figure.state for figure in summary.transforms.figures} == {"cannot-tell"}
    assert summary.verdicts[0].state == "cannot-tell"
    assert (
        "of 20 operations on 3 images none is shown to hurt; 0 hold, 20 cannot be decided" in summary.verdict
    )
    [verdict] = (await finished(gateway, operations=["rotation"])).verdicts
    assert verdict.sentence == "steady: rotation is not shown to hurt on 3 images; it cannot be decided."


async def test_nothing_holds_of_a_classifier_that_is_wrong_on_every_original(gateway: FakeGateway) -> None:
    png, wrong = written("PNG", "RGB"), {"dark": "light", "light": "dark"}
    await uploaded(
        gateway,
        [
            (f"{label}-{n}.png", wrong[label], png(photograph(label, n, 96 + n, 96)))
            for label in LEVELS
            for n in range(25)
        ],
    )
    told = await transformed(gateway, operations=["flip-horizontal", "rotation"], levels=[1])
    assert told.controls["steady"].estimate == 0.0
    for figure in told.figures:
        # No loss is measured, and its interval excludes one of 10 points: there was nothing to lose.
        assert figure.levels[0].lost == 0
        assert figure.levels[0].loss.high == pytest.approx(0.071, abs=0.01)
        assert figure.state == "cannot-tell"
        assert figure.sentence == (
            "steady is right on 0 of 50 images with nothing changed, too few to lose 10 points of accuracy."
        )


async def test_a_class_that_is_wrong_on_all_of_its_originals_loses_nothing_and_is_named(
    gateway: FakeGateway,
) -> None:
    png = written("PNG", "RGB")
    shown = {"dark": "dark", "light": "dark"}
    await uploaded(
        gateway,
        [
            (f"{label}-{n}.png", label, png(photograph(shown[label], n, 96 + n, 96 + len(label))))
            for label in LEVELS
            for n in range(12)
        ],
    )
    summary = await finished(gateway, operations=["flip-horizontal", "brighter"], levels=[5])
    assert summary.transforms is not None
    brighter = next(each for each in summary.transforms.figures if each.operation == "brighter").levels[0]
    assert (brighter.lost, brighter.gained) == (12, 12)
    assert "takes light for dark (12)" in str(summary)


async def test_a_photograph_of_64_megapixels_is_taken_at_half_its_sides(gateway: FakeGateway) -> None:
    large = Image.new("RGB", (9216, 6912), (70, 70, 80))
    files = [
        ("large.jpg", "dark", written("JPEG", "RGB")(large)),
        ("small.jpg", "light", written("JPEG", "RGB")(photograph("light", 0, 96, 96))),
    ]
    assert (await uploaded(gateway, files))["added"] == 2
    stored = {source.image for source in gateway.ledger.datasets.table("own").rows()}
    sizes = {decode_image(gateway.store.get(image)).shape[:2] for image in stored}
    assert sizes == {(3456, 4608), (96, 96)}
    told = await transformed(gateway, operations=["rotation", "gaussian-blur"], levels=[3])
    assert (told.images, told.controls["steady"].estimate) == (2, 1.0)
    assert told.left_out == {}


@pytest.mark.parametrize(
    ("width", "size", "scaled"), [(224, 512, False), (300, 224, False), (300, 512, True), (100, 224, True)]
)
async def test_a_corruption_at_another_size_than_224_pixels_is_called_scaled(
    gateway: FakeGateway, width: int, size: int, scaled: bool
) -> None:
    files = [
        (f"{label}.png", label, written("PNG", "RGB")(photograph(label, 0, width, 150))) for label in LEVELS
    ]
    await uploaded(gateway, files)
    summary = await finished(gateway, operations=["gaussian-blur", "contrast"], levels=[3], size=size)
    assert summary.transforms is not None
    blur, contrast = sorted(summary.transforms.figures, key=lambda each: each.operation, reverse=True)
    assert (blur.title, contrast.title) == (
        "Gaussian blur (scaled)" if scaled else "Gaussian blur",
        "Contrast",
    )
    assert ("as blurred as level 3 (scaled)" in blur.sentence) is scaled
    assert "level 3 (" not in contrast.sentence
    page = await gateway.http.get(f"/v1/runs/{summary.run_id}/report")
    assert ("Gaussian blur (scaled)" in page.text) is scaled
    assert ("Scaled: lengths that ImageNet-C has for 224 pixels" in page.text) is scaled
