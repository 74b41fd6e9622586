"""What bug hunts may spend, and measure: rules, minutes, estimates, mixtures, and what bugs explain."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose._cli.bug_hunt import bug_hunt_text
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.methods.bug_hunt import estimate, process
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import CIRCUMSTANCES, FAILS_ELSEWHERE, FAILS_IN_SNOW, hunted_services
from fakes.ledger_audit import violated
from fakes.ledgers import Clock

ROOT = "/v1/bug-hunts"
BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "budget": {"images": 420}, "held_out": 64,
    "hypotheses": 6, "captions": 24, "vary": 0.0, "seed": 5,
}  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("budgets"), Clock(), ports=hunted_services) as opened:
        yield opened


async def hunted(gateway: FakeGateway, body: dict[str, Any]) -> BugHuntSummary:
    """The summary of a hunt that was worked off."""
    answer = await gateway.http.post(ROOT, json=body)
    assert answer.status_code == 202, answer.text
    run = Run.model_validate_json(answer.content)
    await gateway.worker().work_off()
    assert violated(gateway.ledger, run.id) == []
    summary = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    return BugHuntSummary.model_validate_json(summary.content)


@pytest.mark.paper("BUGS-S4.1-stop")
@pytest.mark.parametrize("sampling", [{"name": "inverse", "failures": 10}, {"name": "sequential"}])
async def test_other_sampling_rules_prove_the_bug_with_fewer_images(
    gateway: FakeGateway, sampling: dict[str, Any]
) -> None:
    again = await hunted(gateway, BODY | {"sampling": sampling, "classifiers": ["leaning"], "winners": 1})
    (bug,) = [each for each in again.bugs if each.state == "breaks"]
    assert (bug.words, bug.held_out.sampling) == ("in the snow", sampling["name"])
    assert bug.failure_rate.low is not None
    assert bug.failure_rate.high is not None
    assert bug.failure_rate.low <= FAILS_IN_SNOW <= bug.failure_rate.high
    assert bug.held_out.made < BODY["held_out"]
    if sampling["name"] == "inverse":
        assert bug.held_out.failures == again.baselines[0].failure.failures == 10


async def test_minutes_by_the_clock_end_a_hunt_with_what_there_is(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine sleeps for an hour in the middle of the second stage.
    ticks = itertools.count()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def now() -> dt.datetime:
        tick = next(ticks)
        return start + dt.timedelta(seconds=tick, hours=tick > 60)

    monkeypatch.setattr(process, "now", now)
    found = await hunted(gateway, BODY | {"budget": {"images": 420, "minutes": 30}})
    items = [
        item for item in gateway.ledger.items.of(found.run_id, HuntItem)
        if item.result is not None and item.kind == "sample"
    ]  # fmt: skip
    began = [item.result.began_at for item in items if item.result is not None and item.result.began_at]
    assert 16 < found.images < found.config.shares.baseline
    assert max(began) - min(began) <= dt.timedelta(minutes=30)
    assert found.hypotheses == []
    late = [each for each in gateway.ledger.items.of(found.run_id, HuntItem) if each.reason == "out-of-time"]
    assert late
    dropped = sum(each.failure.dropped.get("out-of-time", 0) for each in found.baselines[:1])
    assert dropped == len(late)


async def test_an_estimate_tells_the_smallest_rates_before_anything_is_drawn(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    before = len(gateway.ledger.runs.page().runs)
    found = await client.bug_hunts.estimate(
        classifiers=["steady", "leaning"], labels=["plate"], budget={"images": 420}, held_out=64, hypotheses=6
    )
    assert len(gateway.ledger.runs.page().runs) == before
    hunt = await client.bug_hunts.create(
        classifiers=["steady", "leaning"], labels=["plate"], budget={"images": 420}, held_out=64,
        hypotheses=6, sampling={"name": "sequential"},
    )  # fmt: skip
    config = hunt.run.resolved_config
    assert found.shares is not None
    assert config["shares"] == found.shares.model_dump()
    assert (found.findable, found.reason) == (config["findable"], None)
    assert found.provable is not None
    # A test that may be looked at needs a little more.
    assert found.provable < config["detectable"] < 2 * found.provable


async def test_an_estimate_goes_by_the_rates_of_earlier_hunts(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "seconds_per_item", lambda runs, is_alike: [0.5, 1.0, 2.0])
    client = AsyncClient(http=gateway.http)
    settings: dict[str, Any] = {"labels": ["plate"], "held_out": 32, "captions": 18, "vary": 0.0}
    found = await client.bug_hunts.estimate(budget={"images": 564, "minutes": 8}, **settings)
    assert (found.minutes, found.fastest, found.slowest, found.runs) == (10.0, 5.0, 20.0, 3)
    # Eight of ten minutes, without the time of the captions.
    assert found.images_in_time == 480 - 36
    assert found.shares is not None
    assert found.shares.baseline + found.shares.hypotheses == 444 - 96
    short = await client.bug_hunts.estimate(budget={"images": 564, "minutes": 1}, **settings)
    assert (short.shares, short.findable, short.provable) == (None, None, None)
    assert short.reason is not None
    assert "its minutes allow 24 images, and a budget of 24 images is too small" in short.reason
    few = await client.bug_hunts.estimate(labels=["plate"], held_out=8, winners=4, budget={"images": 300})
    assert few.reason is None
    none = await client.bug_hunts.estimate(
        labels=["plate"], held_out=8, winners=8, budget={"images": 300}, sampling={"name": "sequential"}
    )
    assert none.reason == "8 held-out images prove no failure rate"


async def test_an_estimate_of_descriptions_of_your_own_searches_nothing(gateway: FakeGateway) -> None:
    client = AsyncClient(http=gateway.http)
    own: dict[str, Any] = {
        "labels": ["plate"], "descriptions": ["a photo of a plate at night", "a photo of a wet plate"],
        "held_out": 40, "mentions": 50,
    }  # fmt: skip
    found = await client.bug_hunts.estimate(classifiers=["steady", "leaning"], budget={"images": 120}, **own)
    assert (found.tests, found.findable, found.captions) == (4, None, 40)
    assert found.provable is not None
    assert "two failures" not in str(found)
    with pytest.raises(InvalidRequest, match="have 40 held-out images each; allow 120"):
        await client.bug_hunts.estimate(classifiers=["steady"], budget={"images": 119}, **own)


@pytest.mark.paper("BUGS-X-rare")
@pytest.mark.paper("BUGS-X-bias")
async def test_captions_of_the_label_alone_say_how_much_a_bug_explains(gateway: FakeGateway) -> None:
    found = await hunted(gateway, BODY | {"classifiers": ["leaning"], "mentions": 64, "winners": 1})
    (bug,) = found.bugs
    assert bug.mentions is not None
    assert bug.mentions.n == 64
    share = CIRCUMSTANCES.count("in the snow") / len(CIRCUMSTANCES)
    for figure, truth in ((bug.mentions, share), (bug.contribution, share * FAILS_IN_SNOW)):
        assert figure is not None
        assert figure.low is not None
        assert figure.high is not None
        assert 0.0 < figure.low <= truth <= figure.high
    report = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    assert "of all its images fail like this" in report
    told = bug_hunt_text(found)
    assert "in captions of the label" in told
    assert bug.contribution is not None
    assert f"{bug.contribution.estimate:.3f}" in told


SNOW, GRASS = "a photo of a <class> in the snow", "a photo of a <class> on the grass"
MIXTURE: dict[str, Any] = {
    "images": 400, "components": [{"prompt": SNOW, "share": 0.002}, {"prompt": GRASS, "share": 0.99}]
}  # fmt: skip


@pytest.mark.paper("BUGS-X-rare")
async def test_the_rate_of_a_mixture_of_prompts_is_measured_with_images_where_failures_are(
    gateway: FakeGateway,
) -> None:
    body = BODY | {"labels": ["plate", "sled"], "budget": {"images": 1700}, "mixture": MIXTURE}
    found = await hunted(gateway, body)
    assert [(each.label, each.classifier) for each in found.mixtures] == [
        ("plate", "steady"), ("plate", "leaning"), ("sled", "steady"), ("sled", "leaning")
    ]  # fmt: skip
    in_snow = CIRCUMSTANCES.count("in the snow") / len(CIRCUMSTANCES)
    for each in found.mixtures:
        snow = FAILS_IN_SNOW if (each.label, each.classifier) == ("plate", "leaning") else FAILS_ELSEWHERE
        truth = 0.002 * snow + 0.99 * FAILS_ELSEWHERE
        truth += 0.008 * (in_snow * snow + (1.0 - in_snow) * FAILS_ELSEWHERE)
        assert each.rate.low is not None
        assert each.rate.high is not None
        assert each.rate.low <= truth <= each.rate.high
    _, leaning, _, sled = found.mixtures
    assert [each.number for each in leaning.components] == [1, 2, 0]
    # Many more images in the snow than its share, where it fails: for plates alone.
    plates, sleds = (each.components[0].failure.made for each in (leaning, sled))
    assert plates > 5 * sleds
    # The bug was found: its images are the pilot.
    assert "a photo of a plate in the snow" in [each.description for each in found.bugs]
    assert leaning.components[0].pilot_images >= 64
    items = [
        item for item in gateway.ledger.items.of(found.run_id, HuntItem)
        if item.instruction is not None and item.instruction.phase in ("pilot", "mixture")
    ]  # fmt: skip
    assert len(items) <= 2 * 400
    seeds = [(item.label, item.result.seed) for item in items if item.result is not None]
    assert len(set(seeds)) == len(seeds) == len(items)
    assert found.images <= 1700
    report = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    assert 'id="mixtures"' in report
    assert "0.2 %" in report[report.index('id="mixtures"') :]
    assert leaning.sentence in report
    assert leaning.sentence in bug_hunt_text(found)


async def test_descriptions_of_your_own_and_estimates_have_mixtures_too(gateway: FakeGateway) -> None:
    own: dict[str, Any] = {
        "labels": ["plate"], "descriptions": ["a photo of a plate at night"], "held_out": 40,
        "mixture": MIXTURE,
    }  # fmt: skip
    client = AsyncClient(http=gateway.http)
    told = await client.bug_hunts.estimate(classifiers=["steady"], budget={"images": 480}, **own)
    assert told.shares is not None
    assert told.shares.mixture == 400
    assert "400 images of each label measure the mixture's rate" in str(told)
    with pytest.raises(InvalidRequest, match="the mixture 400 of each label; allow 480"):
        await client.bug_hunts.estimate(classifiers=["steady"], budget={"images": 479}, **own)
    with pytest.raises(InvalidRequest, match="the mixture 400 of each label; allow 480"):
        await client.bug_hunts.create(classifiers=["steady"], budget={"images": 479}, **own)
    with pytest.raises(InvalidRequest, match="464 are held out or of the mixture"):
        await client.bug_hunts.estimate(
            labels=["plate"], held_out=32, winners=1, budget={"images": 400}, mixture=MIXTURE
        )
    found = await hunted(gateway, own | {"classifiers": ["steady"], "budget": {"images": 480}, "seed": 1})
    (mixture,) = found.mixtures
    assert mixture.rate.estimate is not None
    assert found.images == 80 + 32 * 2 + mixture.rate.n
    assert found.images <= 480
    hunt = await client.bug_hunts.get(found.run_id)
    child = await hunt.measure("a photo of a plate in the fog", images=8)
    assert child.run.resolved_config["request"]["mixture"] is None


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("a plate in the snow", "has no <class>"),
        ("a <class> next to a sled", "names another class, 'sled'"),
        ("a <class> in the zyx", "cannot draw 'a plate in the zyx'"),
    ],
)
async def test_a_prompt_of_a_mixture_that_cannot_be_drawn_is_refused(
    gateway: FakeGateway, prompt: str, message: str
) -> None:
    wrong = {"components": [{"prompt": SNOW, "share": 0.1}, {"prompt": prompt, "share": 0.1}]}
    answer = await gateway.http.post(ROOT, json=BODY | {"budget": {"images": 1420}, "mixture": wrong})
    assert answer.status_code == 422
    problem = answer.json()
    (named,) = problem.get("errors") or [problem]
    assert named["pointer"] == "/mixture/components/1/prompt", problem
    assert message in problem["detail"]
