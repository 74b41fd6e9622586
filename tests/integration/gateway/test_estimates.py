"""``POST /v1/stress-tests/estimate``: what a run would take and could prove, and nothing is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpose import AsyncClient
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.contract.suite_fit import KnownImages
from counterpose_core.errors import CounterposeError, ImagesOutsideSuite, InvalidRequest, UnknownDataset
from fakes.gateway import FakeGateway, fake_gateway
from fakes.world import CLASSES, fake_suite

PATH = "/v1/stress-tests/estimate"


async def estimated(gateway: FakeGateway, **settings: Any) -> StressTestEstimate:
    """What the SDK is told."""
    return await AsyncClient(http=gateway.http).stress_tests.estimate(dataset="demo", **settings)


async def test_a_large_dataset_can_prove_and_its_figures_are_the_run_s(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 24, classes=CLASSES[:2])
        found = await estimated(gateway, classifiers=["steady"])
        assert gateway.ledger.runs.page().runs == []
        run = await AsyncClient(http=gateway.http).stress_tests.create(
            dataset="demo", classifiers=["steady"], seed=0
        )
        plan = run.run.resolved_config["confirmation"]
        assert (found.images, found.screened, found.fresh) == (48, plan["screened"], plan["fresh"])
        assert found.items == run.run.request_counts.total + plan["budget"]
        assert (found.minutes, found.runs) == (None, 0)
        assert found.reason is None
        for each in found.classes:
            assert each.images == 24
            assert each.share is not None
            assert 0.5 < each.share < 1.0
        said = str(found)
        assert "minutes unknown: no earlier run to go by" in said
        assert f"its images is proven with probability 0.75 ({found.classes[0].pairs} pairs)" in said


async def test_a_small_dataset_is_told_that_nothing_can_be_confirmed(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 1)
        found = await estimated(gateway)
        assert found.reason is not None
        assert all(each.share is None for each in found.classes)
        assert "Nothing can be confirmed" in str(found)
        off = await estimated(gateway, confirm=False)
        assert off.reason == "the request does not confirm"


async def test_where_images_can_be_drawn_again_a_few_prove_something_of_themselves(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, suite=fake_suite(redraw="virtual")) as gateway:
        await gateway.upload("demo", 6)
        found = await estimated(gateway)
        plan = (
            await AsyncClient(http=gateway.http).stress_tests.create(
                dataset="demo", classifiers=["steady"], seed=0
            )
        ).run.resolved_config["confirmation"]
        assert (found.screened, found.fresh, found.reason) == (plan["screened"], plan["fresh"], None)
        assert {each.scope for each in found.classes} == {"images"}
        assert "of the repeated edits of a few" in str(found)


async def test_minutes_come_from_earlier_runs(tmp_path: Path) -> None:
    now = [1000.0]

    def clock() -> float:
        now[0] += 0.01
        return now[0]

    async with fake_gateway(tmp_path, clock) as gateway:
        await gateway.upload("demo", 3)
        client = AsyncClient(http=gateway.http)
        run = await client.stress_tests.create(dataset="demo", classifiers=["steady"], confirm=False, seed=0)
        await gateway.worker().work_off()
        done = (await run.refresh()).run
        assert done.started_at is not None
        assert done.ended_at is not None
        found = await estimated(gateway, confirm=False)
        expected = (done.ended_at - done.started_at).total_seconds() / 60
        assert found.runs == 1
        assert found.minutes == found.fastest == found.slowest == pytest.approx(expected)
        assert (await estimated(gateway, confirm=False, preset="lance")).minutes is None


@pytest.mark.parametrize(
    "asked",
    [
        {"classifiers": ["unsteady"]}, {"classifiers": ["steady", "timm:resnet50"]}, {"preset": "none"},
        {"exclude": ["absent.png"]}, {"label_map": {"zeppelin": ["balloon"]}}, {"limit": 4_000},
        {"interventions": ["in the snow\u202e=>"]}, {"dataset": "single"},
    ],
)  # fmt: skip
async def test_what_a_run_would_refuse_its_estimate_refuses_in_the_same_words(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    async with fake_gateway(tmp_path, max_items_per_run=30) as gateway:
        await gateway.upload("demo", 1)
        await gateway.upload("single", 2, classes=CLASSES[:1])
        body: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "seed": 0} | asked
        tests = AsyncClient(http=gateway.http).stress_tests
        with pytest.raises(CounterposeError) as estimated:
            await tests.estimate(**body)
        with pytest.raises(CounterposeError) as refused:
            await tests.create(**body)
        assert type(estimated.value) is type(refused.value)
        assert estimated.value.detail == refused.value.detail
        assert estimated.value.pointer == refused.value.pointer


def outside(**lowest: float) -> KnownImages:
    """Of what a suite knows images that measure at least so much; the fakes' are far above the others."""
    return KnownImages(
        **{"caption_nats": -9.0, "image_text": 0.0, "psnr_db": 0.0} | lowest, preset="quick", images=300
    )


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (outside(caption_nats=-0.01), "the captioner is unsure of its caption (8)"),
        (outside(image_text=0.5), "the caption does not fit the image (8)"),
        (outside(psnr_db=90.0), "the editor cannot redraw the image (8)"),
    ],
)
async def test_the_first_images_are_looked_at_before_a_run_is_made(
    tmp_path: Path, known: KnownImages, why: str
) -> None:
    suite = fake_suite().model_copy(update={"known_images": known})
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        await gateway.upload("demo", 10)
        with pytest.raises(ImagesOutsideSuite) as found:
            await estimated(gateway, classifiers=["steady"])
        assert f"8 of 8 images lie outside what suite 'miniature' was trained on: {why}" in found.value.detail
        told = found.value.detail.partition("A run would stop after its first images; ")[2]
        by_operations = "counterpose stress-test demo --classifier timm:resnet50 --seed 0 --suite photographs"
        assert told.startswith("test the images by operations, which need no generator: counterpose down && ")
        assert by_operations in told
        assert "or start it with outside_suite='continue'" in told
        assert (await estimated(gateway, outside_suite="continue")).images == 40
        run = await AsyncClient(http=gateway.http).stress_tests.create(
            dataset="demo", classifiers=["steady"], seed=0
        )
        await gateway.worker(concurrency=1).work_off()
        problem = (await run.refresh()).run.problem
        assert problem is not None
        assert problem.detail.split(" Its models")[0] == found.value.detail.split(" Its models")[0]


async def test_images_that_the_suite_knows_are_estimated(tmp_path: Path) -> None:
    suite = fake_suite().model_copy(update={"known_images": outside()})
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        await gateway.upload("demo", 1)
        assert (await estimated(gateway, classifiers=["steady"])).images == 4


async def test_a_wrong_request_is_named(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        with pytest.raises(UnknownDataset):
            await estimated(gateway)
        with pytest.raises(InvalidRequest, match="confirm_share"):
            await estimated(gateway, confirm_share=2)
        with pytest.raises(InvalidRequest, match="colour"):
            await estimated(gateway, colour="red")
        refused = await gateway.http.post(PATH, json={"dataset": "demo"})
        assert refused.status_code == 422
