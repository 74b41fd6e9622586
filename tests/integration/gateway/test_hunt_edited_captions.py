"""Images of edited captions: what a hunt draws of them, and captions that no generator can draw."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.perturber import CaptionEdit, Perturbations, PerturbItem
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.generation import MALFORMED
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import CIRCUMSTANCES, HuntCaptioner, HuntClassifiers, HuntEditor, hunted_services
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakePerturber

HUNTS, DATASETS = "/v1/bug-hunts", "/v1/adversarial-datasets"
BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "budget": {"images": 420}, "held_out": 64,
    "hypotheses": 6, "captions": 24, "vary": 0.0, "seed": 5,
}  # fmt: skip
DATASET: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "samples": 32, "most_kept": 8, "images": 200, "baseline": 32,
    "seed": 5,
}  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("edited"), Clock(), ports=hunted_services) as opened:
        yield opened


async def ended(gateway: FakeGateway, root: str, body: dict[str, Any], services: Services) -> bytes:
    """The summary of a run that was worked off without a failure."""
    answer = await gateway.http.post(root, json=body)
    assert answer.status_code == 202, answer.text
    run = answer.json()["id"]
    await gateway.worker(services).work_off()
    assert (await gateway.http.get(f"/v1/runs/{run}")).json()["state"] == "completed"
    assert violated(gateway.ledger, run) == []
    return (await gateway.http.get(f"/v1/runs/{run}/summary")).content


async def hunted(gateway: FakeGateway, body: dict[str, Any], services: Services) -> BugHuntSummary:
    return BugHuntSummary.model_validate_json(await ended(gateway, HUNTS, body, services))


def _phase(item: HuntItem) -> str:
    return "" if item.instruction is None else item.instruction.phase


class NeverSnow(HuntEditor):
    """Draws snow where the prompt says so, and never else."""

    def drawn(self, item: GenerateItem) -> str:
        """The image of a prompt and seed."""
        told = item.prompt
        told = told if any(place in told for place in CIRCUMSTANCES) else f"{told} on the grass"
        return super().drawn(item.model_copy(update={"prompt": told}))


class Snowing(FakePerturber):
    """Edits the place of a caption, which has a name of its own."""

    def propose(self, item: PerturbItem) -> Perturbations:
        """Another place, once for each type."""
        place = CIRCUMSTANCES[item.seed % 4]
        text = f"{item.caption.replace('on the grass', place)} by artist{item.seed % 7919}"
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[])])


@pytest.mark.parametrize(("vary", "said"), [(0.0, []), (0.7, ["in the snow"])])
async def test_edited_captions_show_what_the_label_alone_never_does(
    vary: float, said: list[str], gateway: FakeGateway
) -> None:
    services = replace(gateway.services, editor=NeverSnow(gateway.world), perturber=Snowing())
    found = await hunted(gateway, BODY | {"vary": vary, "seed": 8}, services)
    assert [bug.words for bug in found.bugs if bug.state == "breaks"] == said
    shares = found.config.shares
    assert (shares.baseline + shares.varied, shares.varied > 0) == (152 if vary else 114, vary > 0.0)
    # What edited captions show is no part of the label's own rate.
    assert all(each.failure.made <= shares.baseline for each in found.baselines)
    assert found.images <= 420


class Wordy(FakePerturber):
    """Edits the style of three captions in four, and the light of the fourth; each has a name of its own."""

    def propose(self, item: PerturbItem) -> Perturbations:
        """Different edits, one of them twice, and one that names another class."""
        added = "at night" if item.seed % 4 == 0 else "as a sketch"
        texts = [f"{item.caption} {added} by artist{(item.seed + n) % 7919}" for n in range(item.n)]
        texts += [f"{item.caption} as a sketch"]
        texts += [f"{item.caption} AS a sketch", f"{item.caption} and a sled"]
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts])


async def test_edited_captions_are_drawn_once_each_and_evenly_and_their_failures_are_told(
    gateway: FakeGateway,
) -> None:
    services = replace(gateway.services, perturber=Wordy())
    found = await hunted(gateway, BODY | {"vary": 0.7}, services)
    items = [item for item in gateway.ledger.items.of(found.run_id, HuntItem) if _phase(item) == "varied"]
    prompts = [item.instruction.prompt or "" for item in items if item.instruction is not None]
    assert len(set(prompts)) == len(prompts) == found.config.shares.varied > 80
    # A quarter of the edits are at night; drawn as they come, a quarter of the images would be.
    assert sum("at night" in prompt for prompt in prompts) > len(prompts) / 3
    by_classifier = {each.classifier: each for each in found.edited}
    assert set(by_classifier) == {"steady", "leaning"}
    told = by_classifier["leaning"]
    failed = [item for item in items if item.result is not None and item.result.failed["leaning"]]
    assert (told.captions, told.failure.failures, told.failure.rate.n) == (
        len(prompts),
        len(failed),
        len(items),
    )
    assert len(failed) > 4
    assert {each.caption for each in told.failed} <= set(prompts)
    assert set(told.dropped) == {"repeated", "names-another-class"}
    report = (await gateway.http.get(f"/v1/runs/{found.run_id}/report")).text
    assert f">{len(failed)} of {len(items)}<" in report
    assert told.failed[0].caption in report


async def test_a_hunt_without_a_bug_says_how_many_images_of_edited_captions_failed(
    gateway: FakeGateway,
) -> None:
    services = replace(
        gateway.services, perturber=Wordy(), classifiers=HuntClassifiers(gateway.world, never=True)
    )
    found = await hunted(gateway, BODY | {"vary": 0.7}, services)
    images = sum(each.failure.rate.n for each in found.edited)
    assert found.verdict.endswith(f"Of {images} answers to images of edited captions, 0 failed.")


class Stuttering(FakePerturber):
    """Edits captions rightly, writes a word that no generator knows, or a list without end."""

    def propose(self, item: PerturbItem) -> Perturbations:
        """Three edits of each caption."""
        texts = [f"{item.caption} at night", f"zyx {item.caption}", f"{item.caption} and" * 100]
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts])


class Mumbling(HuntCaptioner):
    """Begins every other caption with a word that no generator knows."""

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Captions with a stray word."""
        answer = await super().caption(request)
        outcomes = []
        for item, outcome in zip(request.items, answer.outcomes, strict=True):
            caption = outcome.unwrap()
            stray = "" if int(item.image[-1], 16) % 2 else "zyx "
            text = caption.model_copy(update={"text": f"{stray}{caption.text}"})
            outcomes.append(outcome.model_copy(update={"value": text}))
        return answer.model_copy(update={"outcomes": outcomes})


async def test_a_caption_that_a_model_wrote_badly_is_counted_and_ends_no_run_with_failures(
    gateway: FakeGateway,
) -> None:
    services = replace(
        gateway.services,
        editor=HuntEditor(gateway.world),
        perturber=Stuttering(),
        captioner=Mumbling(gateway.world),
    )
    body = BODY | {"vary": 0.5, "budget": {"images": 200}, "held_out": 16, "winners": 1}
    found = BugHuntSummary.model_validate_json(await ended(gateway, HUNTS, body, services))
    assert found.failed_codes == {}
    assert found.filtered[MALFORMED] > 0
    assert any(each.discovery.dropped.get(MALFORMED) for each in found.hypotheses)
    await gateway.upload("mumbled", 8, ("plate",))
    seeds = {"kind": "dataset", "dataset": "mumbled", "mistaken": False}
    made = AdversarialDatasetSummary.model_validate_json(
        await ended(gateway, DATASETS, DATASET | {"seeds": seeds}, services)
    )
    assert made.failed_codes == {}
    assert made.dropped[MALFORMED] > 0
