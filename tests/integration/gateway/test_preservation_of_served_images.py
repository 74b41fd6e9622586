"""A server that moves what it was not asked to move is found out: in items, summary, report and export."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from counterpose._cli.stress_test import stress_test_text
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.images.codecs import encode_png
from fakes.images_gateway import images_gateway, upload_images
from fakes.images_server import Asked, Reply, drawing, obey
from fakes.page_runs import BODY
from fakes.pages import text_of
from fakes.textures import textured
from fakes.world import CLASSES

SIZE = 64, 96
IMAGES = {
    label: [textured(10 * at + number, SIZE) for number in range(3)] for at, label in enumerate(CLASSES[:2])
}
FEW = BODY | {"confirm": False, "max_edits_per_image": 1, "classifiers": ["steady"]}


def shifting(asked: Asked, closing: threading.Event) -> Reply:
    """Return the image unchanged as it is, but edit it five pixels to the right."""
    assert asked.image is not None
    image = asked.image.copy()
    if not str(asked.fields["prompt"]).startswith("Return the image unchanged"):
        image[20:44, 30:60] = [200, 30, 30]
        image = np.roll(image, 5, axis=1)
    return drawing(encode_png(image))


async def items_of(gateway: Any, run: str) -> list[dict[str, Any]]:
    answer = await gateway.http.get(f"/v1/runs/{run}/items", params={"limit": 500})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_server_that_shifts_its_edits_is_found_out_everywhere(tmp_path: Path) -> None:
    async with images_gateway(tmp_path, shifting) as (gateway, server):
        await upload_images(gateway, "demo", IMAGES)
        # The fakes know an image by its pixels, and these are nobody's: what they answer does not matter.
        summary = await gateway.stress_test(FEW)
        items = await items_of(gateway, summary.run_id)
        kept = [item for item in items if item["state"] == "done" and item["kind"] == "edit"]
        assert kept
        for item in kept:
            record = item["result"]["preservation"]
            assert record["faults"] == ["moved"]
            assert abs(record["movement"]["shift"][0] - 5 / 96) < 0.01
        found = summary.preservation
        assert found is not None
        edits, controls = found.rows["edit"], found.rows["control"]
        assert (edits.shares["moved"].estimate, edits.measured) == (1.0, len(kept))
        assert controls.any_fault.estimate == 0.0
        assert any(
            "of the edits are shifted by more than 1 % of a side" in line
            for line in str(summary).splitlines()
        )

        terminal = stress_test_text(summary).splitlines()
        assert found.lines
        assert set(found.lines) <= set(terminal)

        for item in (kept[0], next(item for item in items if item["kind"] == "reconstruction")):
            shown = (await gateway.http.get(f"/ui/runs/{summary.run_id}/items/{item['id']}")).text
            map_of = item["result"]["preservation"]["map"]
            assert f'href="/ui/images/{map_of}.png"' in shown
            assert (await gateway.http.get(f"/ui/images/{map_of}.webp")).status_code == 200
            faults = ", ".join(item["result"]["preservation"]["faults"]) or "none"
            assert f"<dt>faults of preservation</dt><dd><code>{faults}</code>" in shown
            assert f"<code>editor-1 at 127.0.0.1:{server.port}</code>" in shown

        page = (await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text
        told = text_of(page.partition('id="configuration"')[0])
        assert (
            "100.0 % (95 % interval 54.1 to 100.0 %) of the edits are shifted by more than 1 % of a side"
            in told
        )
        assert "look at the controls" in told
        assert "100 % of the placebos are shifted by more than 1 % of a side" in told
        assert "What changed" in told
        assert 'class="tag hot">moved</span>' in page

        exported = await gateway.http.get(
            f"/v1/runs/{summary.run_id}/export", params={"format": "imagefolder"}
        )
        assert exported.status_code == 200, exported.text
        with tarfile.open(fileobj=io.BytesIO(exported.content)) as archive:
            written = archive.extractfile("metadata.jsonl")
            assert written is not None
            rows = [json.loads(line) for line in written.read().decode().splitlines()]
        assert {row["scores"]["preservation moved"] for row in rows} == {1.0}


async def test_a_server_that_obeys_has_no_fault_and_without_the_wish_nothing_is_measured(
    tmp_path: Path,
) -> None:
    async with images_gateway(tmp_path, obey) as (gateway, _):
        await upload_images(gateway, "demo", IMAGES)
        measured = await gateway.stress_test(FEW)
        assert measured.preservation is not None
        moved = [row.shares["moved"].estimate for row in measured.preservation.rows.values()]
        assert moved == [0.0] * len(moved)
        none = await gateway.stress_test(FEW | {"preservation": "none", "seed": 4})
        assert none.preservation is None
        assert "preservation" not in StressTestSummary.model_validate(none).model_dump()
