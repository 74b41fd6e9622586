"""Bug hunts, adversarial datasets and transfers of odd generators, captioners, classifiers and requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary, FailureRate
from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.transfers import TransferSummary
from counterpose_core.errors import ImageUndecodable
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntCaptioner, HuntClassifiers, HuntEditor, hunted_services
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import refusing
from fakes.store import blank_image
from fakes.world import FakeWorld

HUNTS, DATASETS, TRANSFERS = "/v1/bug-hunts", "/v1/adversarial-datasets", "/v1/transfers"
HUNT: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "budget": {"images": 150}, "held_out": 16,
    "winners": 1, "hypotheses": 3, "captions": 12, "vary": 0.0, "seed": 5,
}  # fmt: skip
SNOW = {"label": "plate", "text": "a photo of a plate in the snow"}
SAND = {"label": "plate", "text": "a photo of a plate on the sand"}
DATASET: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "seeds": {"kind": "captions", "captions": [SNOW, SAND]},
    "samples": 32, "most_kept": 8, "images": 200, "baseline": 32, "seed": 5,
}  # fmt: skip
TWO = {"labels": ["plate", "sled"], "budget": {"images": 300}}
ZEBRA = {"criterion": {"name": "taken-for", "target": "zebra"}}
CLOCK = Clock()
"""The ledger's."""
MOST_STAGES = 12
BLANK = "bad-backend-output"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def without_sleds(world: FakeWorld) -> Services:
    """The hunted world, whose generator does not know the word "sled"."""
    return replace(hunted_services(world), editor=HuntEditor(world, unknown="sled"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("odd"), CLOCK, ports=without_sleds) as opened:
        yield opened


async def created(gateway: FakeGateway, root: str, body: dict[str, Any]) -> str:
    answer = await gateway.http.post(root, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def worked_off(
    gateway: FakeGateway, root: str, body: dict[str, Any], services: Services, state: str = "completed"
) -> bytes:
    """The summary of a run of these services, which ends in this state."""
    run = await created(gateway, root, body)
    await gateway.worker(services).work_off()
    for _ in range(MOST_STAGES * MAX_ATTEMPTS):
        if gateway.ledger.runs.get(run).state in FINAL_RUN_STATES:
            break
        # What failed is tried again later.
        CLOCK.now += 3600.0
        await gateway.worker(services).work_off()
    assert (await gateway.http.get(f"/v1/runs/{run}")).json()["state"] == state
    assert violated(gateway.ledger, run) == []
    report = await gateway.http.get(f"/v1/runs/{run}/report")
    assert report.status_code == 200, report.text
    answer = await gateway.http.get(f"/v1/runs/{run}/summary")
    assert answer.status_code == 200, answer.text
    return answer.content


def counted(rate: FailureRate) -> int:
    """The images that a rate accounts for, which are all that were made."""
    return rate.rate.n + sum(rate.dropped.values())


class HalfBlank(HuntEditor):
    """Half of its images are of one colour, as those of a safety checker."""

    def drawn(self, item: GenerateItem) -> str:
        """An image, or nothing."""
        return super().drawn(item) if item.seed % 2 else self.world.store.put(blank_image())


async def test_blank_images_of_a_hunt_are_left_out_with_their_number(gateway: FakeGateway) -> None:
    services = replace(gateway.services, editor=HalfBlank(gateway.world))
    content = await worked_off(gateway, HUNTS, HUNT, services, "completed_with_failures")
    found = BugHuntSummary.model_validate_json(content)
    rates = [each.failure for each in found.baselines]
    blank = rates[0].dropped[BLANK]
    assert 15 < blank < rates[0].made - 15
    assert [each.dropped[BLANK] for each in rates] == [blank, blank]
    assert all(counted(each) == each.made for each in rates)
    assert found.failed_codes[BLANK] >= blank
    assert set(found.failed_codes) == {BLANK}


async def test_blank_images_of_an_adversarial_dataset_are_left_out_with_their_number(
    gateway: FakeGateway,
) -> None:
    services = replace(gateway.services, editor=HalfBlank(gateway.world))
    content = await worked_off(gateway, DATASETS, DATASET, services, "completed_with_failures")
    found = AdversarialDatasetSummary.model_validate_json(content)
    blank = found.dropped[BLANK]
    assert blank > 8
    assert found.images + blank == sum(each.made for each in found.captions)
    assert found.failed_codes == {BLANK: blank + found.baselines[0].failure.dropped[BLANK]}
    # Of the first sixteen of each caption, only those that show something.
    assert all(each.rate.n < 2 * 16 for each in found.classifiers)


async def test_an_image_that_is_drawn_again_and_again_is_kept_once(gateway: FakeGateway) -> None:
    class Stuck(HuntEditor):
        """Draws one image of a prompt, whatever the seed."""

        def drawn(self, item: GenerateItem) -> str:
            return super().drawn(item.model_copy(update={"seed": 0}))

    services = replace(
        gateway.services,
        editor=Stuck(gateway.world),
        classifiers=HuntClassifiers(gateway.world, always=True),
    )
    found = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET, services)
    )
    assert [(each.made, each.kept) for each in found.captions] == [(32, 1), (32, 1)]
    assert found.dropped == {"duplicate": 62}
    assert {each.rate.n for each in found.classifiers} == {2}


async def test_a_label_that_never_fails_gives_no_image(gateway: FakeGateway) -> None:
    services = replace(gateway.services, classifiers=HuntClassifiers(gateway.world, never=True))
    found = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET, services)
    )
    assert (found.kept, found.dropped["not-fooled"]) == (0, found.images - found.dropped.get("duplicate", 0))
    assert [each.rate.estimate for each in found.classifiers] == [0.0, 0.0]
    assert found.verdict.startswith("No image fools any of 2 classifiers")


async def test_a_label_that_always_fails_gives_what_is_wanted_and_no_difference(gateway: FakeGateway) -> None:
    services = replace(gateway.services, classifiers=HuntClassifiers(gateway.world, always=True))
    found = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET, services)
    )
    assert [(each.made, each.kept) for each in found.captions] == [(16, 8), (16, 8)]
    assert {(each.rate.estimate, each.baseline.estimate) for each in found.classifiers} == {(1.0, 1.0)}
    assert {each.threshold for each in found.objects.values()} == {None}


class Forgetful(HuntCaptioner):
    """Calls a plate a thing."""

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Captions without the label."""
        answer = await super().caption(request)
        outcomes = []
        for outcome in answer.outcomes:
            caption = outcome.unwrap()
            text = caption.text.replace("plate", "thing")
            outcomes.append(outcome.model_copy(update={"value": caption.model_copy(update={"text": text})}))
        return answer.model_copy(update={"outcomes": outcomes})


async def test_captions_that_lose_the_label_describe_nothing(gateway: FakeGateway) -> None:
    services = replace(gateway.services, captioner=Forgetful(gateway.world))
    found = BugHuntSummary.model_validate_json(await worked_off(gateway, HUNTS, HUNT, services))
    failures = [min(each.failure.failures, HUNT["captions"]) for each in found.baselines]
    # Captions of failures, of each classifier; those of successes only compare.
    assert found.captions["lost-label"] == sum(failures) > 0
    assert found.captions["written"] > sum(failures)
    assert (found.hypotheses, found.bugs) == ([], [])
    assert "No bug of plate was proven" in found.verdict


async def test_seeds_whose_captions_lose_the_label_are_counted_and_generate_nothing(
    gateway: FakeGateway,
) -> None:
    await gateway.upload("forgotten", 8, ("plate",))
    services = replace(gateway.services, captioner=Forgetful(gateway.world))
    seeds = {"kind": "dataset", "dataset": "forgotten", "mistaken": False}
    found = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET | {"seeds": seeds}, services)
    )
    assert found.left_out == {"lost-label": 8}
    assert (found.seeds.captioned, found.captions, found.images) == (8, [], 0)
    assert found.verdict.startswith("No caption to generate from: 8 seeds were looked at")


class Unreading(HuntClassifiers):
    """``leaning`` cannot read every fourth image."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answers, and errors."""
        answer = await super().classify(request)
        refused = [request.classifier == "leaning" and int(ref[-1], 16) < 4 for ref in request.images]
        return refusing(answer, refused, ImageUndecodable("cannot be read"))


async def test_images_that_a_classifier_cannot_read_are_no_failures_of_it(gateway: FakeGateway) -> None:
    services = replace(gateway.services, classifiers=Unreading(gateway.world))
    found = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET, services)
    )
    rates = {each.classifier: each.failure for each in found.baselines}
    assert rates["steady"].dropped.get("unanswered", 0) == 0
    assert rates["leaning"].dropped["unanswered"] > 0
    assert all(counted(each) == each.made == DATASET["baseline"] for each in rates.values())
    body = {"source": found.run_id, "classifiers": ["leaning", "steady"], "seed": 1}
    shown = TransferSummary.model_validate_json(await worked_off(gateway, TRANSFERS, body, services))
    baseline = {cell.column: cell.baseline.n for cell in shown.cells}
    assert shown.unanswered == {"leaning": baseline["steady"] - baseline["leaning"] + unread(shown)}
    assert shown.unanswered["leaning"] > 0


def unread(shown: TransferSummary) -> int:
    """Fooling images that ``leaning`` could not read: those of the other row, as it was fooled by its own."""
    n = {cell.column: cell.rate.n for cell in shown.cells if cell.row == "steady"}
    return n.get("steady", 0) - n.get("leaning", 0)


EVERY_STAGE = {
    "classifiers": ["leaning"], "budget": {"images": 300}, "refine": 8, "vary": 0.5, "clusters": "features",
    "words": "both", "mentions": 8,
}  # fmt: skip
STAGES = {HUNTS: HUNT | EVERY_STAGE, DATASETS: DATASET}


@pytest.mark.parametrize("root", STAGES)
async def test_a_run_is_cancelled_between_any_two_stages_and_goes_on_from_there(
    gateway: FakeGateway, root: str
) -> None:
    whole = await created(gateway, root, STAGES[root])
    await gateway.worker().work_off()
    stages, counts = gateway.ledger.runs.get(whole).stage, gateway.ledger.runs.get(whole).request_counts
    assert stages >= {HUNTS: 12, DATASETS: 3}[root]
    run = await created(gateway, root, STAGES[root])
    for stage in range(1, stages + 1):
        while (found := gateway.ledger.runs.get(run)).state != "finalizing" or found.stage < stage:
            work = await gateway.worker()._next_work()
            assert work is not None
            await work
        answer = await gateway.http.post(f"/v1/runs/{run}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        assert violated(gateway.ledger, run) == []
        for part in ("summary", "report"):
            assert (await gateway.http.get(f"/v1/runs/{run}/{part}")).status_code == 200, (part, stage)
        await gateway.worker().work_off()
        left = gateway.ledger.runs.get(run)
        assert (left.state, left.stage, left.request_counts) == ("cancelled", stage, found.request_counts)
        assert (await gateway.http.post(f"/v1/runs/{run}/resume")).status_code == 200
    await gateway.worker().work_off()
    assert gateway.ledger.runs.get(run).state == "completed"
    assert gateway.ledger.runs.get(run).request_counts == counts
    told = [(await gateway.http.get(f"/v1/runs/{each}/summary")).json() for each in (run, whole)]
    assert told[0]["verdict"] == told[1]["verdict"]


async def test_a_class_without_a_parent_is_named_and_judged_by_itself(gateway: FakeGateway) -> None:
    family: dict[str, Any] = {"criterion": {"name": "no-relative"}, "parents": {"boat": "vehicle"}}
    note = "no parent is known of plate: `no-relative` means there that the label is none of the first three"
    found = BugHuntSummary.model_validate_json(
        await worked_off(gateway, HUNTS, HUNT | family, gateway.services)
    )
    made = AdversarialDatasetSummary.model_validate_json(
        await worked_off(gateway, DATASETS, DATASET | family, gateway.services)
    )
    assert note in found.config.notes
    assert note in made.config.notes
    # Of four classes the label is among the first three, unless it comes last.
    assert all(each.failure.rate.n > 0 for each in found.baselines)


class Eagles(HuntClassifiers):
    """Calls every kite a bald eagle, and takes it for anything else before it thinks of a kite."""

    CLASSES = ("bald eagle", "fly", "bee", "kite")

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        """The same answer to all."""
        order = [request.classes.index(name) for name in self.CLASSES]
        return Prediction(
            probabilities=[{"bald eagle": 0.7, "kite": 0.0}.get(name, 0.15) for name in request.classes],
            top=order,
        )


async def test_a_transfer_takes_the_same_classes_for_relatives_as_its_source(gateway: FakeGateway) -> None:
    services = replace(gateway.services, classifiers=Eagles(gateway.world))
    birds = {
        "classes": list(Eagles.CLASSES), "classifiers": ["leaning"],
        "seeds": {"kind": "captions", "captions": [{"label": "kite", "text": "a photo of a kite at dusk"}]},
    }  # fmt: skip
    content = await worked_off(gateway, DATASETS, DATASET | birds, services)
    source = AdversarialDatasetSummary.model_validate_json(content)
    assert source.kept == DATASET["most_kept"]
    body = {
        "source": source.run_id, "classifiers": ["steady"], "seed": 1,
        "criterion": {"name": "no-relative", "levels": 2},
    }  # fmt: skip
    (cell,) = TransferSummary.model_validate_json(await worked_off(gateway, TRANSFERS, body, services)).cells
    # Two levels above both in WordNet stands the bird of prey.
    assert (cell.failures, cell.rate.n) == (0, source.kept)


@pytest.mark.parametrize(
    ("root", "body", "pointer", "said"),
    [
        (HUNTS, HUNT | TWO, "/labels/1", "cannot draw 'sled': 'sled' is no word"),
        (
            DATASETS,
            DATASET
            | {"seeds": {"kind": "captions", "captions": [SNOW, {"label": "sled", "text": "a sled"}]}},
            "/seeds/captions/1/label",
            "cannot draw 'sled': 'sled' is no word",
        ),
        (DATASETS, DATASET | {"images": 0}, "/images", "greater than or equal to 1"),
        (DATASETS, DATASET | {"images": 10**9}, "/images", "less than or equal to 10000000"),
        (DATASETS, DATASET | ZEBRA, "/criterion/target", "no common class 'zebra'"),
        (HUNTS, HUNT | {"budget": {"images": 10**9}}, "/budget/images", "less than or equal to 10000000"),
    ],
)  # fmt: skip
async def test_what_no_run_can_do_is_refused_by_its_place(
    gateway: FakeGateway, root: str, body: dict[str, Any], pointer: str, said: str
) -> None:
    answer = await gateway.http.post(root, json=body)
    assert answer.status_code == 422, answer.text
    assert pointer in [each["pointer"] for each in answer.json()["errors"]]
    assert said in answer.text


@pytest.mark.parametrize(
    ("asked", "pointer", "said"),
    [
        (TWO, "/labels/1", "cannot draw 'sled': 'sled' is no word"),
        ({"labels": ["zebra"], "budget": {"images": 60}}, "/labels/0", "no common class 'zebra'"),
        ({"budget": {"images": 20}}, "/budget/images", "is too small"),
        ({"classifiers": ["steady", "absent"]}, "/classifiers/1", "no classifier is named 'absent'"),
        (ZEBRA, "/criterion/target", "no common class 'zebra'"),
    ],
)  # fmt: skip
async def test_what_a_hunt_would_refuse_its_estimate_refuses_in_the_same_words(
    gateway: FakeGateway, asked: dict[str, Any], pointer: str, said: str
) -> None:
    refused = await gateway.http.post(HUNTS, json=HUNT | asked)
    estimated = await gateway.http.post(f"{HUNTS}/estimate", json=HUNT | asked)
    assert estimated.status_code in (404, 422), estimated.text
    assert pointer in [each["pointer"] for each in estimated.json()["errors"]]
    assert said in estimated.text
    assert estimated.json() | {"request_id": ""} == refused.json() | {"request_id": ""}


async def test_a_label_that_the_generator_does_not_know_fails_alone(gateway: FakeGateway) -> None:
    await gateway.upload("sleds", 6, ("plate", "sled"))
    seeds = {"kind": "dataset", "dataset": "sleds", "mistaken": False}
    content = await worked_off(
        gateway, DATASETS, DATASET | {"seeds": seeds}, gateway.services, "completed_with_failures"
    )
    found = AdversarialDatasetSummary.model_validate_json(content)
    made = {each.label: each.failure for each in found.baselines}
    assert made["sled"].dropped == {"invalid-request": DATASET["baseline"]}
    assert made["plate"].rate.n > 25
    drawn = {each.label: each for each in found.captions}
    assert (drawn["sled"].made, drawn["sled"].fooling.n) == (16, 0)
    assert drawn["plate"].fooling.n > 16


@pytest.mark.parametrize(
    ("target", "said"), [("plate", "is a label itself"), ("zebra", "no common class 'zebra'")]
)
async def test_a_transfer_s_target_is_a_wrong_class(gateway: FakeGateway, target: str, said: str) -> None:
    services = replace(gateway.services, classifiers=HuntClassifiers(gateway.world, always=True))
    content = await worked_off(gateway, DATASETS, DATASET, services)
    source = AdversarialDatasetSummary.model_validate_json(content).run_id
    body = {
        "source": source, "classifiers": ["steady"], "seed": 1,
        "criterion": {"name": "taken-for", "target": target},
    }  # fmt: skip
    answer = await gateway.http.post(TRANSFERS, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/criterion/target"]
    assert said in answer.text
