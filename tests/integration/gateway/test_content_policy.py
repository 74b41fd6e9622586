"""Requests with a word that the operator refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.editor import (
    EditedImage,
    EditItem,
    EditRequest,
    EditResponse,
    EditVariant,
    GeneratedImage,
    GenerateRequest,
    GenerateResponse,
    ImageSafety,
)
from counterpose_gateway.app import word_policy
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntEditor, hunted_services
from fakes.problems import problem
from fakes.store import image
from fakes.world import FakeWorld, Shown

TESTED: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}


def written(folder: Path) -> Path:
    """A list of refused words."""
    file = folder / "words.txt"
    file.write_text("severed head  # everywhere\nboat\n", encoding="utf-8")
    return file


@pytest.mark.fault("B34", "T17")
@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/stress-tests", TESTED | {"interventions": ["dog=>Boats"]}, "/interventions/0"),
        ("/v1/datasets", {"name": "pets", "classes": ["a dog", "a severed  head"]}, "/classes/1"),
        ("/v1/bug-hunts", {"labels": ["a boat"], "classifiers": ["steady"]}, "/labels/0"),
        ("/v1/jobs", {"cluster": "x", "run": TESTED | {"name": "boat"}}, "/run/name"),
    ],
)
async def test_a_request_with_a_refused_word_is_refused_with_its_place(
    path: str, body: dict[str, Any], where: str, tmp_path: Path
) -> None:
    async with fake_gateway(tmp_path, policy_words_file=written(tmp_path)) as gateway:
        found = problem(await gateway.http.post(path, json=body), 422, "policy-refused")
        assert str(found.detail).startswith(f"{where}: ")
        assert found.retryable is False
        assert (await gateway.http.get("/v1/runs")).json()["runs"] == []


async def test_images_and_other_words_pass_and_the_run_records_the_list(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, policy_words_file=written(tmp_path)) as gateway:
        await gateway.upload("demo", 1, classes=("sled", "lake"))
        made = (await gateway.http.post("/v1/stress-tests", json=TESTED)).json()
        assert made["resolved_config"]["policy_words"] == ["severed head", "boat"]


def test_a_list_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt"):
        word_policy(GatewaySettings(policy_words_file=tmp_path / "none.txt"))


class WatchedEditor(HuntEditor):
    """The editor of the hunted world, which notes every prompt."""

    prompts: ClassVar[list[str]] = []

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Draw, and note."""
        self.prompts.extend(item.prompt for item in request.items)
        return await super().generate(request)


def watched_services(world: FakeWorld) -> Services:
    return replace(hunted_services(world), editor=WatchedEditor(world))


HUNT: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "budget": {"images": 150}, "held_out": 16,
    "hypotheses": 6, "winners": 1, "captions": 12, "vary": 0.0, "seed": 5,
}  # fmt: skip


@pytest.mark.fault("B34", "T17")
async def test_no_image_is_drawn_of_a_caption_with_a_refused_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchedEditor, "prompts", [])
    words = tmp_path / "words.txt"
    words.write_text("snow\n", encoding="utf-8")
    async with fake_gateway(tmp_path, ports=watched_services, policy_words_file=words) as gateway:
        hunted = await worked_off(gateway, "/v1/bug-hunts", HUNT)
        sources = [snowy(gateway, number) for number in range(24)]
        await gateway.http.post("/v1/datasets", json={"name": "wild"})
        await gateway.http.post("/v1/datasets/wild/sources", json={"sources": sources})
        seeds = {"kind": "dataset", "dataset": "wild"}
        body = {"classifiers": ["leaning"], "seeds": seeds, "samples": 8, "most_kept": 4, "images": 60,
                "baseline": 8, "seed": 5}  # fmt: skip
        made = await worked_off(gateway, "/v1/adversarial-datasets", body)
    assert hunted["filtered"]["policy"] == hunted["request_counts"]["filtered"] > 0
    assert made["filtered"]["policy"] > 0
    assert WatchedEditor.prompts
    assert not [prompt for prompt in WatchedEditor.prompts if "snow" in prompt]


def snowy(gateway: FakeGateway, number: int) -> dict[str, str]:
    """The upload of a photograph in snow, which the captioner says."""
    shown = Shown("plate", "a photo of a plate in the snow")
    gateway.world.add(shown, number)
    return gateway.upload_of(image(shown, number), "plate")


async def worked_off(gateway: FakeGateway, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run that was worked off."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    summary: dict[str, Any] = (await gateway.http.get(f"/v1/runs/{answer.json()['id']}/summary")).json()
    return summary


class FlaggingEditor(HuntEditor):
    """The editor of the hunted world with a checker that flags snow, and of a sweep all values but one."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Draw, and judge."""
        answer = await super().generate(request)
        pairs = zip(request.items, answer.outcomes, strict=True)
        outcomes: list[Outcome[GeneratedImage]] = [
            Outcome(value=outcome.unwrap().model_copy(update={"safety": judged("snow" in item.prompt)}))
            for item, outcome in pairs
        ]
        return answer.model_copy(update={"outcomes": outcomes})

    async def edit(self, request: EditRequest) -> EditResponse:
        """Edit, and judge."""
        answer = await super().edit(request)
        outcomes: list[Outcome[EditedImage]] = [
            Outcome(value=EditedImage(variants=self._judged(item, outcome.unwrap().variants)))
            for item, outcome in zip(request.items, answer.outcomes, strict=True)
        ]
        return answer.model_copy(update={"outcomes": outcomes})

    def _judged(self, item: EditItem, variants: Sequence[EditVariant]) -> list[EditVariant]:
        is_snow = "snow" in item.edited_caption
        kept = variants[0].strength
        return [
            each.model_copy(update={"safety": judged(is_snow or each.strength != kept)}) for each in variants
        ]


def judged(flagged: bool) -> ImageSafety:
    return ImageSafety(flagged=flagged, score=0.25 if flagged else -0.25)


def flagging_services(world: FakeWorld) -> Services:
    return replace(hunted_services(world), editor=FlaggingEditor(world))


@pytest.mark.fault("T17")
async def test_images_that_the_safety_checker_flags_are_filtered_and_counted(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=flagging_services) as gateway:
        await gateway.upload("demo", 1)
        hunted = await worked_off(gateway, "/v1/bug-hunts", HUNT)
        own = {"interventions": [{"removed": "", "added": "in the snow"}], "max_edits_per_image": 1,
               "lance_r_edits_per_image": 0, "edit_types": ["object"]}  # fmt: skip
        tested = await worked_off(gateway, "/v1/stress-tests", TESTED | own)
        items = list(gateway.ledger.items.all(tested["run_id"]))
    assert hunted["filtered"]["safety"] > 0
    flagged = [item for item in items if item.reason == "safety"]
    assert {item.kind for item in flagged} == {"intervention"}
    assert tested["dropped"]["safety"] == len(flagged)
    assert all(item.result is None and "0.250 above" in (item.detail or "") for item in flagged)
    edits = [item for item in items if item.kind == "edit" and item.result is not None]
    assert edits
