"""The SDK against the real routes: interface, images, benchmark, report and export."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import datasets
import pytest
import pytest_asyncio

from counterpose import AsyncClient, AsyncShiftBenchmark
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.images.codecs import decode_image
from fakes.benchmarks import SHIFTS, benchmark_services, token_of, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.world import CLASSES

pytestmark = pytest.mark.asyncio(loop_scope="module")

N = 6
CSP = "default-src 'none'; img-src data:"


@dataclass(frozen=True)
class Ended:
    """A gateway with an interface and a benchmark of it that has ended, and a client of the gateway."""

    gateway: FakeGateway
    client: AsyncClient
    interface: str
    bench: AsyncShiftBenchmark


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ended]:
    async with fake_gateway(tmp_path_factory.mktemp("ended"), ports=benchmark_services) as gateway:
        client = AsyncClient(http=gateway.http)
        interface = await uploaded(gateway)
        bench = await client.shift_benchmarks.create(
            interface=interface, shifts=SHIFTS, classifiers=["steady", "leaning"],
            image_sources=["token", "class-name"], n=N, real=6,
        )  # fmt: skip
        await gateway.worker().work_off()
        yield Ended(gateway, client, interface, await bench.wait())


async def test_an_interface_generates_a_class_under_a_shift(ended: Ended, tmp_path: Path) -> None:
    interface = await ended.client.dataset_interfaces.get(ended.interface)
    images = await interface.generate(class_name=CLASSES[0], shift="in the snow", n=3)
    assert [image.token for image in images] == [token_of(CLASSES[0])] * 3
    assert len({image.seed for image in images}) == 3
    for path in await images.save(tmp_path / "images"):
        assert decode_image(path.read_bytes()).ndim == 3
    again = await interface.generate(class_name=CLASSES[0], shift="in the snow", n=3)
    assert [image.image for image in again] == [image.image for image in images]


async def test_an_error_names_the_missing_class(ended: Ended) -> None:
    interface = await ended.client.dataset_interfaces.get(ended.interface)
    with pytest.raises(InvalidRequest, match="'zebra'"):
        await interface.generate(class_name="zebra")


async def test_the_summary_covers_every_shift_and_both_sources(ended: Ended) -> None:
    summary = await ended.bench.summary()
    assert list(summary.image_sources) == ["token", "class-name"]
    assert set(summary.image_sources["token"].shifts) == set(SHIFTS)
    assert "in the snow" in str(summary)


async def test_items_and_results_list_the_same_images(ended: Ended) -> None:
    items = [item.id async for item in ended.bench.items()]
    assert items == [item.id async for item in ended.bench.results()]
    assert len(items) == ended.bench.run.request_counts.total


async def test_setting_an_inspected_threshold_judges_the_same_images_again(ended: Ended) -> None:
    seen = await ended.bench.inspections("in the rain", image_source="token")
    assert seen.n == len(CLASSES) * N
    before = (await ended.bench.summary()).image_sources["token"].shifts["in the rain"].counts.kept
    decision = await ended.bench.set_shift_threshold("in the rain", None, "Ada")
    assert decision.author == "Ada"
    assert (await ended.bench.shift_thresholds()).in_force["in the rain"].nothing_passes
    after = await ended.bench.summary()
    assert before > after.image_sources["token"].shifts["in the rain"].counts.kept == 0
    await ended.bench.set_shift_threshold("in the rain", -1.0, "Ada")
    assert (await ended.bench.summary()).image_sources["token"].shifts[
        "in the rain"
    ].counts.without_shift == 0


async def test_a_report_is_a_single_page_with_one_script_of_its_own(ended: Ended) -> None:
    for run in (ended.bench.id, ended.interface):
        answer = await ended.gateway.http.get(f"/v1/runs/{run}/report")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-security-policy"].startswith(CSP)
        assert answer.text.count("<script") == 1
        assert CLASSES[0] in answer.text


async def test_reports_accept_another_percentile(ended: Ended) -> None:
    path = f"/v1/runs/{ended.bench.id}/report"
    answer = await ended.gateway.http.get(path, params={"object_percentile": 40})
    assert "the 40th percentile" in answer.text
    assert (await ended.gateway.http.get(path, params={"object_percentile": 101})).status_code == 422


async def test_an_export_has_the_images_the_summary_keeps(ended: Ended, tmp_path: Path) -> None:
    folder = await ended.bench.export(tmp_path / "out")
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    summary = await ended.bench.summary()
    kept = sum(
        told.counts.kept
        for image_source in summary.image_sources.values()
        for told in (image_source.base, *image_source.shifts.values())
    )
    assert len(rows) == kept
    assert {row["image_source"] for row in rows} == {"token", "class-name"}
    loaded = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train")
    assert set(loaded["synthetic"]) == {True}
    assert len(loaded) == kept


async def test_real_images_are_exported_only_on_request_and_unmarked(ended: Ended, tmp_path: Path) -> None:
    folder = await ended.bench.export(tmp_path / "out", found=True)
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    real = [row for row in rows if row["image_source"] == "real"]
    assert len(real) == len(CLASSES) * 6
    assert {row["synthetic"] for row in real} == {False}
    assert not any(b"synthetic\x00" in (folder / row["file_name"]).read_bytes() for row in real)


async def test_runs_of_other_kinds_are_not_found(ended: Ended) -> None:
    with pytest.raises(NotFound):
        await ended.client.shift_benchmarks.get(ended.interface)
