"""Adversarial datasets over a real ledger and fake services: from captions of failures to fooling images."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialItem
from counterpose_core.contract.editor import GENERATED_KIND
from counterpose_core.contract.runs import Run
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import FAILS_ELSEWHERE, FAILS_IN_SNOW, hunted_services
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.store import image
from fakes.world import Shown

ROOT = "/v1/adversarial-datasets"
SNOW, GRASS = "a photo of a plate in the snow", "a photo of a plate on the grass"
BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "seeds": {"kind": "dataset", "dataset": "wild"},
    "samples": 40, "most_kept": 8, "images": 400, "baseline": 40, "seed": 5,
}  # fmt: skip
GIVEN = BODY | {
    "seeds": {
        "kind": "captions",
        "captions": [{"label": "plate", "text": SNOW}, {"label": "plate", "text": GRASS}],
    }
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder = tmp_path_factory.mktemp("adversarial")
    async with fake_gateway(folder, Clock(), ports=hunted_services) as opened:
        await uploaded(opened)
        yield opened


async def uploaded(gateway: FakeGateway) -> None:
    """Photographs of plates, half of them in snow, and of things that are no class."""
    shown = [Shown("plate", SNOW if number % 2 else GRASS) for number in range(40)]
    sources = [_source(gateway, each, number) for number, each in enumerate(shown)]
    sources.append(_source(gateway, Shown("zebra", "a photo of a zebra"), 99))
    await gateway.http.post("/v1/datasets", json={"name": "wild"})
    answer = await gateway.http.post("/v1/datasets/wild/sources", json={"sources": sources})
    assert answer.json()["added"] == 41, answer.text


def _source(gateway: FakeGateway, shown: Shown, number: int) -> dict[str, str]:
    gateway.world.add(shown, number)
    content = base64.b64encode(image(shown, number)).decode()
    return {"filename": f"{number}.png", "label": shown.label, "content_base64": content}


async def made(gateway: FakeGateway, body: dict[str, Any]) -> AdversarialDatasetSummary:
    """The summary of a run that was worked off."""
    answer = await gateway.http.post(ROOT, json=body)
    assert answer.status_code == 202, answer.text
    run = Run.model_validate_json(answer.content)
    await gateway.worker().work_off()
    ended = (await gateway.http.get(f"/v1/runs/{run.id}")).json()
    assert ended["state"] in ("completed", "completed_with_failures"), ended
    assert violated(gateway.ledger, run.id) == []
    summary = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    assert summary.status_code == 200, summary.text
    return AdversarialDatasetSummary.model_validate_json(summary.content)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(gateway: FakeGateway) -> AdversarialDatasetSummary:
    """A dataset from photographs of which a classifier gets those in snow wrong."""
    return await made(gateway, BODY | {"reference": "wild", "reference_images": 40})


@pytest.mark.paper("BUGS-S4.2-seeds")
@pytest.mark.paper("BUGS-S4.2-sample")
async def test_captions_of_mistaken_photographs_make_images_that_fool(
    found: AdversarialDatasetSummary, gateway: FakeGateway
) -> None:
    assert found.captions[0].prompt == SNOW
    assert found.captions[0].seeds > 5
    assert found.captions[0].kept == BODY["most_kept"]
    assert found.seeds.looked_at == 40
    assert found.seeds.captioned + found.seeds.dropped["answered-rightly"] == 40
    assert found.left_out == {"label-is-no-class": 1}
    shown = {each.item for each in found.shown}
    kept = [item for item in gateway.ledger.items.of(found.run_id, AdversarialItem) if item.id in shown]
    assert all(item.result is not None and any(item.result.failed.values()) for item in kept)
    assert found.kept + sum(found.dropped.values()) == sum(each.made for each in found.captions)
    assert found.verdict.startswith(f"{found.kept} images fool any of 2 classifiers")


async def test_a_caption_that_fails_often_costs_fewer_images(gateway: FakeGateway) -> None:
    found = await made(gateway, GIVEN)
    snow, grass = found.captions
    assert (snow.prompt, grass.prompt) == (SNOW, GRASS)
    assert (snow.made, grass.made) == (16, 40)
    for each, truth in ((snow, FAILS_IN_SNOW), (grass, 2 * FAILS_ELSEWHERE)):
        assert each.fooling.low is not None
        assert each.fooling.high is not None
        assert each.fooling.low <= truth <= each.fooling.high


async def test_a_caption_of_words_that_the_generator_does_not_know_costs_one_round(
    gateway: FakeGateway,
) -> None:
    given = [{"label": "plate", "text": f"a photo of a plate {place}"} for place in ("zyx", "in the snow")]
    found = await made(gateway, GIVEN | {"seeds": {"kind": "captions", "captions": given}})
    unknown, snow = found.captions
    assert (unknown.made, unknown.kept, unknown.fooling.n) == (16, 0, 0)
    assert found.dropped["invalid-request"] == found.failed_codes["invalid-request"] == 16
    assert snow.kept == BODY["most_kept"]


async def test_unchosen_images_say_how_often_captions_fail(gateway: FakeGateway) -> None:
    found = await made(gateway, GIVEN | {"most_kept": 100, "near_duplicates": None})
    leaning = {each.classifier: each for each in found.classifiers}["leaning"]
    # Sixteen images of either caption; the rounds after them depend on what failed.
    assert leaning.rate.n <= 32
    assert leaning.rate.estimate is not None
    assert 0.15 < leaning.rate.estimate < 0.55
    assert leaning.baseline.n <= 40
    assert leaning.baseline.estimate is not None
    assert leaning.rate.estimate > leaning.baseline.estimate


async def test_only_images_that_fool_all_are_kept_on_request(gateway: FakeGateway) -> None:
    found = await made(gateway, GIVEN | {"fools": "all"})
    assert found.kept < 5
    assert found.dropped["not-fooled"] > 30


async def test_the_descriptions_of_a_hunt_are_generated_from(gateway: FakeGateway) -> None:
    hunt = {
        "classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 250}, "held_out": 32,
        "hypotheses": 4, "seed": 2,
    }  # fmt: skip
    run = (await gateway.http.post("/v1/bug-hunts", json=hunt)).json()["id"]
    seeds = {"kind": "bug-hunt", "run": run}
    early = await gateway.http.post(ROOT, json=BODY | {"seeds": seeds})
    assert early.status_code == 409
    assert "has not ended" in early.text
    await gateway.worker().work_off()
    found = await made(gateway, BODY | {"seeds": seeds})
    assert [each.prompt for each in found.captions] == [SNOW]
    assert found.captions[0].kept == BODY["most_kept"]


async def test_equal_seeds_make_the_same_dataset_whatever_else_is_generated_from(
    gateway: FakeGateway,
) -> None:
    first = await made(gateway, GIVEN)
    assert (await made(gateway, GIVEN)).digest == first.digest
    alone = GIVEN["seeds"] | {"captions": GIVEN["seeds"]["captions"][:1]}
    fewer = await made(gateway, GIVEN | {"seeds": alone})
    images = {each.image for each in first.shown if each.prompt == SNOW}
    assert images == {each.image for each in fewer.shown}
    assert (await made(gateway, GIVEN | {"seed": 6})).digest != first.digest


async def test_the_images_are_exported_as_a_marked_dataset(
    found: AdversarialDatasetSummary, gateway: FakeGateway
) -> None:
    answer = await gateway.http.get(f"/v1/runs/{found.run_id}/export")
    assert answer.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
        card = archive.extractfile("README.md")
        assert card is not None
        assert "Images that fool steady, leaning" in card.read().decode()
        pictures = [name for name in names if name.endswith(".png")]
        assert len(pictures) == found.kept
        marked = archive.extractfile(pictures[0])
        assert marked is not None
        assert b"trainedAlgorithmicMedia" in marked.read()
    more = await gateway.http.get(f"/v1/runs/{found.run_id}/export?dropped=true")
    assert len(more.content) > len(answer.content)


async def test_the_images_become_a_dataset_that_other_methods_take_and_stay_marked(
    found: AdversarialDatasetSummary, gateway: FakeGateway
) -> None:
    client = AsyncClient(http=gateway.http)
    run = await client.adversarial_datasets.get(found.run_id)
    dataset = await run.register("fooling")
    assert (dataset.n_sources, dataset.classes) == (found.kept, ["plate"])
    assert (await run.register("fooling")).digest == dataset.digest
    source = gateway.ledger.datasets.sources("fooling")[0]
    assert source.caption == SNOW
    assert source.group is not None
    assert source.group.startswith("plate, caption ")
    body = {"dataset": "fooling", "classifiers": ["steady"], "seed": 1}
    # One class alone can hide nothing: the dataset is known, its classes are too few.
    answer = await gateway.http.post("/v1/stress-tests", json=body)
    assert "fooling" in answer.text
    gateway.store.remember(GENERATED_KIND, source.image, source.image)
    shown = await gateway.http.get(f"/v1/artifacts/{source.image}.png")
    assert b"trainedAlgorithmicMedia" in shown.content


@pytest.mark.paper("BUGS-F3-samples")
async def test_the_report_shows_images_first_and_what_each_filter_dropped(
    found: AdversarialDatasetSummary, gateway: FakeGateway
) -> None:
    text = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    places = [
        text.index(each) for each in ("<h1>", "<figure>", "How often captions fail", "What each filter")
    ]
    assert places == sorted(places)
    assert "data:image/webp" in text
    assert text.count("<figcaption>plate taken for ") == len(found.shown)
    assert "answered rightly" in text
    shown = await gateway.http.get(f"/ui/runs/{found.run_id}")
    assert shown.status_code == 200
    assert "Adversarial dataset of wild" in shown.text


@pytest.mark.paper("BUGS-S4.2-fid")
async def test_the_distance_from_real_images_is_told_beside_that_of_two_halves(
    found: AdversarialDatasetSummary, gateway: FakeGateway
) -> None:
    distances = found.distances
    assert distances is not None
    assert distances.n_originals == 40
    assert list(distances.rows) == ["kept", "seeds", "labels-alone"]
    # The fakes' features are random: no set of images is far from another.
    alone = distances.rows["labels-alone"].kernel
    assert alone is not None
    assert alone.low is not None
    assert alone.high is not None
    assert alone.low < 0.0 < alone.high
    assert alone.n == 40
    kept = distances.rows["kept"]
    assert kept.n_images == found.kept
    assert kept.frechet is None
    assert "needs 1280 images in each set" in kept.no_frechet
    text = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    assert "two halves of the reference" in text


async def test_a_client_makes_a_dataset_in_one_call(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    run = await client.adversarial_datasets.create(
        classifiers=["leaning"], given=[("plate", SNOW)], samples=32, most_kept=4, images=100, seed=2
    )
    await gateway.worker().work_off()
    summary = await (await run.wait()).summary()
    assert (summary.kept, summary.labels) == (4, {"plate": 4})
    with pytest.raises(ValueError, match="exactly one of dataset, hunt and given"):
        await client.adversarial_datasets.create(classifiers=["leaning"])


@pytest.mark.parametrize(
    ("changes", "status", "pointer", "said"),
    [
        ({"seeds": {"kind": "dataset", "dataset": "nothing"}}, 404, "/seeds/dataset", "nothing"),
        ({"seeds": {"kind": "bug-hunt", "run": "nobody"}}, 404, "/seeds/run", "nobody"),
        (
            {"seeds": {"kind": "captions", "captions": [{"label": "plate", "text": "a dog"}]}}, 422,
            "/seeds/captions", "1 lost-label",
        ),
        (
            {"seeds": {"kind": "captions", "captions": [{"label": "plate", "text": "a plate on a sled"}]}},
            422, "/seeds/captions", "1 names-another-class",
        ),
        ({"reference": "nothing"}, 404, "/reference", "nothing"),
        ({"images": 50}, 422, "/images", "the baselines of 1 labels take 40"),
        ({"criterion": {"name": "taken-for", "target": "plate"}}, 422, "/criterion/target", "label itself"),
        ({"classifiers": ["nobody"]}, 404, "/classifiers/0", "nobody"),
        ({"images": 10_000_000}, 429, "/images", "COUNTERPOSE_MAX_ITEMS_PER_RUN"),
    ],
)  # fmt: skip
async def test_what_cannot_be_made_is_refused_by_name(
    gateway: FakeGateway, changes: dict[str, Any], status: int, pointer: str, said: str
) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | changes)
    problem = answer.json()
    assert answer.status_code == status, problem
    assert pointer in [each["pointer"] for each in problem.get("errors") or []], problem
    assert said in answer.text, problem
