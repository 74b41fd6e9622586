"""Proofs of a run whose edits have a region: their images need masks or a segmenter, as the run's do."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import SegmenterSuite
from fakes.gateway import fake_gateway
from fakes.proofs import BODY, CLASSES, PER_CLASS, items, prove
from fakes.world import fake_suite

IMAGES = 5
SEGMENTER = SegmenterSuite(model="scorer/segmenter")


@pytest.mark.parametrize("segmenter", [None, SEGMENTER])
async def test_a_proof_on_images_without_masks_needs_a_segmenter_as_its_run_does(
    tmp_path: Path, segmenter: SegmenterSuite | None
) -> None:
    suite = fake_suite().model_copy(update={"segmenter": segmenter})
    mask = np.zeros((8, 8, 3), dtype=np.uint8)
    mask[2:6, 2:6] = 255
    masked = {"mask_base64": base64.b64encode(encode_png(mask)).decode()}
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        await gateway.http.post("/v1/datasets", json={"name": "demo"})
        sources = [gateway.source(label, number) | masked for label in CLASSES for number in range(5)]
        added = await gateway.http.post("/v1/datasets/demo/sources", json={"sources": sources})
        assert added.status_code == 200, added.text
        answer = await gateway.http.post("/v1/stress-tests", json=BODY | {"region": "background"})
        assert answer.status_code == 202, answer.text
        await gateway.worker().work_off()
        run_id = answer.json()["id"]
        await gateway.upload("bare", PER_CLASS, CLASSES)
        asked = await prove(gateway, run_id, images=IMAGES, dataset="bare")
        if segmenter is None:
            [error] = asked.json()["errors"]
            assert (asked.status_code, error["pointer"]) == (422, "/dataset")
            assert "images have no mask" in error["detail"]
            assert "or name another dataset" in error["detail"]
            return
        assert asked.status_code == 202, asked.text
        await gateway.worker().work_off()
        made = Counter((item["kind"], item["reason"]) for item in await items(gateway, asked.json()["id"]))
    assert made["confirmation", None] == IMAGES
