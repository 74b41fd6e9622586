"""Bug hunts over a real ledger and fake services: from a label to a bug in words on held-out images."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.captioner import LogLikelihoodRequest, LogLikelihoodResponse
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.runs import Run
from counterpose_core.errors import ImageUndecodable
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import (
    CIRCUMSTANCES,
    FAILS_ELSEWHERE,
    FAILS_IN_SNOW,
    HuntCaptioner,
    HuntClassifiers,
    HuntEditor,
    hunted_services,
)
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import refusing
from fakes.world import FakeWorld

ROOT = "/v1/bug-hunts"
BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "budget": {"images": 420}, "held_out": 64,
    "hypotheses": 6, "captions": 24, "vary": 0.0, "seed": 5,
}  # fmt: skip
SMALL = BODY | {"budget": {"images": 150}, "held_out": 16, "winners": 1, "captions": 12}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("hunts"), Clock(), ports=hunted_services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(gateway: FakeGateway) -> BugHuntSummary:
    """A hunt among two classifiers, of which one fails on plates in snow."""
    return await hunted(gateway, BODY)


async def hunted(
    gateway: FakeGateway, body: dict[str, Any], services: Services | None = None
) -> BugHuntSummary:
    """The summary of a hunt that was worked off."""
    answer = await gateway.http.post(ROOT, json=body)
    assert answer.status_code == 202, answer.text
    run = Run.model_validate_json(answer.content)
    await gateway.worker(services).work_off()
    ended = (await gateway.http.get(f"/v1/runs/{run.id}")).json()
    assert ended["state"] in ("completed", "completed_with_failures"), ended
    assert violated(gateway.ledger, run.id) == []
    summary = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    assert summary.status_code == 200, summary.text
    return BugHuntSummary.model_validate_json(summary.content)


def with_classifiers(
    gateway: FakeGateway, make: Callable[[FakeWorld], HuntClassifiers] = HuntClassifiers
) -> Services:
    services = gateway.services
    return Services(
        captioner=services.captioner,
        perturber=services.perturber,
        editor=services.editor,
        scorer=services.scorer,
        classifiers=make(gateway.world),
    )


@pytest.mark.paper("BUGS-F1-diagram")
@pytest.mark.paper("BUGS-EQ1-failure")
@pytest.mark.paper("BUGS-S3-measure")
@pytest.mark.paper("BUGS-S4.1-significance")
async def test_the_bug_is_described_by_its_circumstance_and_measured_on_held_out_images(
    found: BugHuntSummary,
) -> None:
    (bug,) = found.bugs
    assert (bug.state, bug.classifier, bug.label, bug.taken_for) == ("breaks", "leaning", "plate", "sled")
    assert bug.description == "a photo of a plate in the snow"
    assert bug.words == "in the snow"
    rate = bug.failure_rate
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= FAILS_IN_SNOW <= rate.high
    assert (bug.held_out.made, bug.baseline.made) == (64, 64)
    assert bug.p_adjusted is not None
    assert bug.p_adjusted < 1e-6
    assert bug.ratio.ratio is not None
    assert bug.ratio.ratio > 2.0
    assert found.verdict.startswith("leaning: “a photo of a plate in the snow” is called sled")


async def test_a_control_classifier_gives_no_bug_and_is_told_beside_it(found: BugHuntSummary) -> None:
    assert {bug.classifier for bug in found.bugs} == {"leaning"}
    control = found.bugs[0].others["steady"]
    assert control.rate.n == 64
    assert control.failures <= 5


@pytest.mark.paper("BUGS-S3-baseline")
async def test_all_classifiers_share_the_samples_of_the_baseline(
    found: BugHuntSummary, gateway: FakeGateway
) -> None:
    rates = {each.classifier: each.failure for each in found.baselines}
    made = rates["steady"].made
    assert rates["leaning"].made == made == found.config.shares.baseline
    share = CIRCUMSTANCES.count("in the snow") / len(CIRCUMSTANCES)
    truth = share * FAILS_IN_SNOW + (1 - share) * FAILS_ELSEWHERE
    low, high = rates["leaning"].rate.low, rates["leaning"].rate.high
    assert low is not None
    assert high is not None
    assert low <= truth <= high
    items = list(gateway.ledger.items.of(found.run_id, HuntItem))
    seeds = {
        phase: [item.result.seed for item in items if _phase(item) == phase and item.result is not None]
        for phase in ("baseline", "hypothesis", "held-out")
    }
    # Held-out images come from noise that no choice has seen.
    assert not set(seeds["held-out"]) & {*seeds["baseline"], *seeds["hypothesis"]}
    assert found.images == sum(map(len, seeds.values())) <= BODY["budget"]["images"]


def _phase(item: HuntItem) -> str:
    return "" if item.instruction is None else item.instruction.phase


async def test_hopeless_descriptions_get_no_more_images(found: BugHuntSummary) -> None:
    made = {each.prompt: each.discovery.made for each in found.hypotheses}
    assert made["a photo of a plate in the snow"] > 2 * min(made.values())
    assert {each.state for each in found.hypotheses} == {"winner", "stopped"}


@pytest.mark.paper("BUGS-X-coverage")
async def test_the_report_shows_the_bug_first_and_both_rates(
    found: BugHuntSummary, gateway: FakeGateway
) -> None:
    answer = await gateway.http.get(f"/v1/runs/{found.run_id}/report")
    assert answer.status_code == 200
    text = answer.text
    places = [
        text.index(each) for each in ("<h1>leaning", ">held out<", ">discovery<", "Descriptions that were")
    ]
    assert places == sorted(places)
    assert "data:image/webp" in text
    assert "no failure found is no proof that there is none" in text
    shown = await gateway.http.get(f"/ui/runs/{found.run_id}")
    assert shown.status_code == 200
    assert "Bug hunt of plate" in shown.text


async def test_a_client_hunts_in_one_call_and_reads_the_bugs(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    hunt = await client.bug_hunts.create(
        classifiers=["leaning"], labels=["plate"], budget={"images": 250}, held_out=32, hypotheses=4, seed=2
    )
    await gateway.worker().work_off()
    (bug,) = await (await hunt.wait()).bugs()
    assert (bug.words, bug.held_out.rate.n) == ("in the snow", 32)
    again = await client.runs.get(hunt.id)
    assert type(again) is type(hunt)


async def test_equal_seeds_give_equal_hunts(gateway: FakeGateway) -> None:
    body = BODY | {"budget": {"images": 70}, "held_out": 8, "winners": 1, "hypotheses": 2, "captions": 8}
    first, second = [await hunted(gateway, body) for _ in range(2)]
    left_out = {"run_id", "seconds", "bugs", "cost", "tree"}
    assert first.model_dump(exclude=left_out) == second.model_dump(exclude=left_out)
    assert [bug.failure_rate for bug in first.bugs] == [bug.failure_rate for bug in second.bugs]


@pytest.mark.parametrize("fails", [{"always": True}, {"never": True}])
async def test_a_label_that_always_fails_or_never_does_gives_no_bug(
    gateway: FakeGateway, fails: dict[str, bool]
) -> None:
    services = with_classifiers(gateway, lambda world: HuntClassifiers(world, **fails))
    found = await hunted(gateway, SMALL, services)
    assert (found.bugs, found.hypotheses) == ([], [])
    failures = {each.failure.failures for each in found.baselines}
    # Two images may be one: it counts once.
    assert failures == {0} if fails.get("never") else min(failures) > 30
    assert "No bug of plate was proven" in found.verdict


async def test_images_that_a_classifier_cannot_read_are_left_out_with_their_count(
    gateway: FakeGateway,
) -> None:
    class Unreading(HuntClassifiers):
        """``leaning`` cannot read every fourth image."""

        async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
            answer = await super().classify(request)
            refused = [request.classifier == "leaning" and int(ref[-1], 16) < 4 for ref in request.images]
            return refusing(answer, refused, ImageUndecodable("cannot be read"))

    found = await hunted(gateway, SMALL, with_classifiers(gateway, Unreading))
    rates = {each.classifier: each.failure for each in found.baselines}
    unanswered = rates["leaning"].dropped["unanswered"]
    assert unanswered > 0
    assert rates["leaning"].rate.n + unanswered == rates["leaning"].made == rates["steady"].rate.n


@pytest.mark.parametrize(
    ("changes", "status", "pointer", "said"),
    [
        ({"labels": ["zebra"]}, 422, "/labels/0", "no common class 'zebra'"),
        ({"criterion": {"name": "taken-for", "target": "plate"}}, 422, "/criterion/target", "label itself"),
        ({"criterion": {"name": "taken-for", "target": "zebra"}}, 422, "/criterion/target", "'zebra'"),
        ({"budget": {"images": 0}}, 422, "/budget/images", "greater than or equal to 1"),
        ({"labels": ["platte"], "budget": {"images": 60}}, 422, "/labels/0", "(did you mean 'plate'?)"),
        ({"budget": {"images": 100}}, 422, "/budget/images", "too small for 1 labels: each needs 272"),
        ({"budget": {"images": 10_000_000}}, 429, "/budget/images", "COUNTERPOSE_MAX_ITEMS_PER_RUN"),
        ({"classifiers": ["nobody"]}, 404, "/classifiers/0", "nobody"),
        ({"classifiers": ["timm:resnet18"]}, 422, "/classes", "'timm:resnet18' are not known"),
        ({"prompt": "a photo of nothing"}, 422, "/prompt", "<class>"),
        (
            {"prompt": "a photo of a zyx <class>"}, 422, "/labels/0",
            "the generator of suite 'miniature' cannot draw 'plate': 'zyx' is no word",
        ),
    ],
)  # fmt: skip
async def test_what_cannot_be_hunted_is_refused_by_name(
    gateway: FakeGateway, changes: dict[str, Any], status: int, pointer: str, said: str
) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | changes)
    problem = answer.json()
    assert answer.status_code == status, problem
    pointers = [each["pointer"] for each in problem.get("errors") or []] or [problem.get("pointer")]
    assert pointer in pointers, problem
    assert said in answer.text, problem


@pytest.mark.paper("BUGS-S3-adjectives")
async def test_a_winner_is_refined_to_the_words_that_it_needs(gateway: FakeGateway) -> None:
    world = gateway.world
    services = replace(gateway.services, editor=HuntEditor(world, snow="deep snow"))
    body = {"budget": {"images": 600}, "held_out": 32, "winners": 1, "hypotheses": 4, "refine": 24}
    found = await hunted(gateway, BODY | body, services)
    (bug,) = found.bugs
    assert (bug.description, bug.words) == ("a photo of a plate in the snow", "in the snow")
    assert bug.found_as == "a photo of a plate in the deep snow"
    (form,) = bug.refinement
    assert (form.left_out, form.need, form.failure.made) == ("deep", "not-needed", 24)
    assert bug.unrefined is not None
    assert bug.unrefined.made == 24
    assert found.images <= 600
    report = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    assert "Found as “a photo of a plate in the deep snow”" in report
    assert ">deep</td>" in report


async def test_a_hunt_refines_by_itself_where_its_budget_allows(gateway: FakeGateway) -> None:
    services = replace(gateway.services, editor=HuntEditor(gateway.world, snow="deep snow"))
    body = {"budget": {"images": 1200}, "held_out": 32, "winners": 1, "hypotheses": 4}
    found = await hunted(gateway, BODY | body, services)
    assert [(bug.state, bug.words) for bug in found.bugs] == [("breaks", "in the snow")]
    assert (found.config.request.refine, found.config.shares.refine) == (None, 32)
    assert found.images <= 1200


@pytest.mark.paper("BUGS-S3-likelihood")
@pytest.mark.paper("BUGS-S3-greedy")
@pytest.mark.paper("BUGS-S3-forced-prompt")
async def test_the_captioner_s_likelihood_finds_the_circumstance_without_captions_of_successes(
    gateway: FakeGateway,
) -> None:
    body = {"budget": {"images": 300}, "held_out": 32, "winners": 1, "hypotheses": 2, "words": "likelihood"}
    found = await hunted(gateway, BODY | body | {"classifiers": ["leaning"]})
    (bug,) = found.bugs
    assert (bug.state, bug.description) == ("breaks", "a photo of a plate in the snow")
    assert [each.source for each in found.hypotheses] == ["combination"]
    items = list(gateway.ledger.items.of(found.run_id, HuntItem))
    (combined,) = (item for item in items if item.kind == "combination")
    assert combined.result is not None
    # The captioner finds no second phrase as likely for all of them.
    assert [each.sentence for each in combined.result.combined] == ["in the snow"]
    failures = next(each.failure.failures for each in found.baselines)
    assert found.captions["written"] == min(failures, 24)


async def test_both_ways_try_the_descriptions_of_each(gateway: FakeGateway) -> None:
    body = {"budget": {"images": 200}, "held_out": 16, "winners": 1, "hypotheses": 4, "words": "both"}
    found = await hunted(gateway, BODY | body | {"classifiers": ["leaning"]})
    assert {"words", "caption"} <= {each.source for each in found.hypotheses} | {"caption"}
    assert found.hypotheses[0].prompt == "a photo of a plate in the snow"


async def test_images_that_the_captioner_cannot_weigh_fail_the_combination_alone(
    gateway: FakeGateway,
) -> None:
    class Blind(HuntCaptioner):
        """Reads no image when it weighs texts."""

        async def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
            answer = await super().log_likelihood(request)
            return refusing(answer, [True] * len(request.items), ImageUndecodable("cannot be read"))

    services = replace(gateway.services, captioner=Blind(gateway.world))
    body = SMALL | {"words": "likelihood", "hypotheses": 2, "classifiers": ["leaning"]}
    answer = await gateway.http.post(ROOT, json=body)
    run = Run.model_validate_json(answer.content)
    await gateway.worker(services).work_off()
    summary = (await gateway.http.get(f"/v1/runs/{run.id}/summary")).json()
    assert summary["failed_codes"] == {"image-undecodable": 1}
    assert summary["hypotheses"] == []


@pytest.mark.paper("BUGS-X-clustering")
async def test_clusters_by_features_are_recorded_and_the_bug_is_found_in_one(gateway: FakeGateway) -> None:
    body = {"budget": {"images": 300}, "held_out": 32, "winners": 1, "hypotheses": 3, "clusters": "features"}
    found = await hunted(gateway, BODY | body | {"classifiers": ["leaning"]})
    (bug,) = found.bugs
    assert (bug.state, bug.words) == ("breaks", "in the snow")
    failures = next(each.failure.failures for each in found.baselines)
    assert sum(each.n for each in found.clusters) == failures
    (item,) = (each for each in gateway.ledger.items.of(found.run_id, HuntItem) if each.kind == "clustering")
    assert item.result is not None
    assert len(item.result.clusters) == failures
    assert "clusters of failures" in (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text


async def test_a_generator_that_draws_one_image_again_and_again_gives_one(gateway: FakeGateway) -> None:
    class Stuck(HuntEditor):
        """Draws one image of a prompt, whatever the seed."""

        def drawn(self, item: GenerateItem) -> str:
            return super().drawn(item.model_copy(update={"seed": 0}))

    services = replace(gateway.services, editor=Stuck(gateway.world))
    found = await hunted(gateway, SMALL, services)
    assert found.bugs == []
    for each in found.baselines:
        assert each.failure.rate.n == 1
        assert each.failure.dropped == {"duplicate": each.failure.made - 1}
