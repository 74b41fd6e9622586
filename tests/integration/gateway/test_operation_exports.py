"""The export of a run of operations: every image made again from its recipe, with what was answered."""

from __future__ import annotations

import html
import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.image_recipes import digest_of_pixels, made
from counterpose_gateway.images.png import OPERATION_SOURCE_TYPE
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import fake_services
from fakes.world import CLASSES, FakeWorld
from integration.gateway.test_operations import SUITE, MisledByRotation, finished

CHANGES = {"operations": ["rotation", "darker", "upside-down"], "levels": [1, 3]}


class SaysWhatItMade(MisledByRotation):
    """Tells the digest of the pixels of each recipe; of ``torn`` ones, that of others."""

    store: BlobStore
    torn: str = "none"

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        answer = super().predict(request, image)
        if "/" not in image:
            return answer
        recipe = Recipe.parsed(image)
        pixels = made(recipe, self.store.get)
        if recipe.operation == self.torn:
            pixels = 255 - pixels
        return answer.model_copy(update={"pixels": digest_of_pixels(pixels)})


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=SaysWhatItMade(world))

    async with fake_gateway(tmp_path, suite=SUITE, ports=ports) as opened:
        opened.services.classifiers.store = opened.store  # type: ignore[attr-defined]
        yield opened


async def files_of(gateway: FakeGateway, run: str, layout: str) -> dict[str, bytes]:
    answer = await gateway.http.get(f"/v1/runs/{run}/export", params={"layout": layout})
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        members = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: opened.read() for name, opened in members.items() if opened is not None}


async def test_an_export_holds_what_each_recipe_makes_with_the_answers_to_it(gateway: FakeGateway) -> None:
    summary = await finished(gateway, per_class=2, transforms=CHANGES)
    files = await files_of(gateway, summary.run_id, "imagefolder")
    rows = [json.loads(line) for line in files["metadata.jsonl"].decode().splitlines()]
    photographs = 2 * len(CLASSES)
    assert Counter(row["shift"] for row in rows) == dict.fromkeys(
        ["base", "rotation 1", "rotation 3", "darker 1", "darker 3", "upside-down"], photographs
    )
    for row in rows:
        recipe = Recipe.parsed(row["artifact"])
        pixels = np.asarray(Image.open(io.BytesIO(files[row["file_name"]])).convert("RGB"))
        assert np.array_equal(pixels, made(recipe, gateway.store.get))
        assert (row["image_source"], row["scores"]["level"]) == (recipe.operation, recipe.level)
        assert row["digital_source_type"] == ("" if row["shift"] == "base" else OPERATION_SOURCE_TYPE)
        misled = row["shift"] == "rotation 3"
        assert row["scores"]["truth leaning"] == pytest.approx(0.1 if misled else 0.9)
    card = files["README.md"].decode()
    assert "A generative model" not in card
    assert 'tags: ["counterpose", ' in card
    assert f"changed {5 * photographs} of {6 * photographs} images" in card


@pytest.mark.parametrize("layout", ["webdataset", "fiftyone", "label-studio", "parquet"])
async def test_every_layout_takes_a_run_of_operations(gateway: FakeGateway, layout: str) -> None:
    summary = await finished(gateway, per_class=1, transforms=CHANGES)
    files = await files_of(gateway, summary.run_id, layout)
    assert "README.md" in files
    assert len(files) > 1


async def test_the_page_of_an_item_shows_its_control_and_what_each_operation_made(
    gateway: FakeGateway,
) -> None:
    run = (await finished(gateway, per_class=1, transforms=CHANGES)).run_id
    items = (await gateway.http.get(f"/v1/runs/{run}/items")).json()["items"]
    page = (await gateway.http.get(f"/ui/runs/{run}/items/{items[0]['id']}")).text
    shown = [html.unescape(address) for address in re.findall(r'src="(/ui/images/made[^"]*)"', page)]
    # The control, the placebo, and five changes.
    assert len(shown) == len(set(shown)) == 7
    assert "<b>nothing changed</b><br>steady: " in page
    for address in shown:
        answer = await gateway.http.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
        marked = b"algorithmicallyEnhanced" in answer.content
        assert marked == ("identity" not in address)
    for recipe, status in ((f"{'ab' * 32}/rotation/1/0/512/-/-", 404), ("ab" * 32, 422), ("../x", 422)):
        answer = await gateway.http.get("/ui/images/made.webp", params={"recipe": recipe})
        assert answer.status_code == status


async def test_an_image_that_is_not_the_one_that_was_answered_is_never_exported(gateway: FakeGateway) -> None:
    gateway.services.classifiers.torn = "darker"  # type: ignore[attr-defined]
    run = (await finished(gateway, per_class=1, transforms=CHANGES)).run_id
    items = list(gateway.ledger.items.recorded(run))
    assert items[0].result is not None
    assert all(each["pixels"].startswith("sha256:") for each in items[0].result["transformed"])
    answer = await gateway.http.get(f"/v1/runs/{run}/export")
    assert answer.json()["code"] == "artifact-corrupt"
    assert "darker/1" in answer.json()["detail"]
    assert "makes another image here than the one that was answered" in answer.json()["detail"]
